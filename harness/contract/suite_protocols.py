"""What the wire relies on of every protocol, without a wire: bytes in, values out."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from harness.contract.speaker import FROM, LIMIT, RECORD, TO, DirectionReader, read_back
from harness.model import events as kinds
from harness.model.history import Line, line_of
from harness.wire.protocol import Frame, Immovable, Move, Need, Opaque, UnableError, Unframed
from harness.wire.rules import CONTENT, Direction, is_prefix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.contract.speaker import Said, Speaker
    from harness.wire.protocol import Insight, Session

MEGABYTE = 1 << 20
LINE = {
    "kind",
    "event",
    "line",
    "t",
    "w",
    "cell",
    "by",
    "conn",
    "role",
    "node",
    "client",
    "dir",
    "api",
    "records",
}
"""What a frame's line says by itself, and no fact may say otherwise."""
GARBAGE = 3000
"""How many damaged conversations are fed."""


@dataclass
class ProtocolCase:
    """A conversation, and what a session makes of it, in pieces of so many bytes."""

    speaker: Speaker
    said: list[Said]
    piece: int

    def __post_init__(self) -> None:
        self.protocol = self.speaker.make()
        self.session = self.protocol.session(1, limit=LIMIT)
        self.ears = {way: DirectionReader(self.session, way) for way in Direction}
        for way, data in self.said:
            for at in range(0, len(data), self.piece):
                self.ears[way].take(data[at : at + self.piece])

    def told(self) -> Sequence[object]:
        """Return what it is. Of frames without an end of their own, what follows them belongs to
        them.
        """
        told = [(way, shown(fed)) for way, ear in self.ears.items() for fed, _ in ear.heard]
        if self.speaker.reads:
            return told
        return [
            (way, fed.step, fed.id, fed.answers, fed.facts) for way, fed, _ in self.frames()
        ] + [b"".join(data for _, data in ear.heard) for ear in self.ears.values()]

    def frames(self) -> list[tuple[Direction, Frame, bytes]]:
        """Return the frames among it."""
        return [
            (way, fed, data)
            for way, ear in self.ears.items()
            for fed, data in ear.heard
            if isinstance(fed, Frame)
        ]


def everything(speaker: Speaker, key: str = "k") -> list[Said]:
    """Return a whole conversation, with a heart-beat wherever there may be one."""
    said = [*speaker.opening(key), *speaker.question(key), (FROM, speaker.answer)]
    return [each for way, data in said for each in ((way, data), (way, speaker.beat))]


def asked(speaker: Speaker) -> tuple[ProtocolCase, Frame, bytes]:
    """Return a conversation up to the question, and that."""
    heard = ProtocolCase(speaker, [*speaker.opening("k"), *speaker.question("k")], LIMIT)
    _, question, data = next(each for each in reversed(heard.frames()) if each[0] is TO)
    return heard, question, data


def fed_answer(speaker: Speaker, session: Session, data: bytes) -> Frame:
    """Feed an answer, whole."""
    answer = session.feed(FROM, data)
    assert isinstance(answer, Frame), answer
    assert answer.size == len(data), f"{speaker.name}: an answer of {answer.size} bytes"
    return answer


@pytest.mark.parametrize("piece", [1, 7])
def test_pieces_are_the_frames_of_the_whole(speaker: Speaker, piece: int) -> None:
    """Wherever a stream is cut, and however often the session is asked in between."""
    said = everything(speaker)
    whole = ProtocolCase(speaker, said, LIMIT)
    assert ProtocolCase(speaker, said, piece).told() == whole.told()
    assert [data for ear in whole.ears.values() for _, data in ear.heard] == [
        data for way in Direction for at, data in said if at is way and data
    ]


def test_what_is_fed_again_is_what_it_was(speaker: Speaker) -> None:
    """Until it is taken, and whatever stands behind it."""
    session = speaker.make().session(1, limit=LIMIT)
    ways = {
        way: b"".join(data for at, data in everything(speaker) if at is way) for way in Direction
    }
    for way, one in everything(speaker):
        if not one:
            continue
        first, again, more = (session.feed(way, data) for data in (one, one, ways[way]))
        for other in (again, more):
            assert shown(other) == shown(first)
        assert isinstance(first, Unframed | Frame)
        if isinstance(first, Frame):
            session.sending(first)
        session.taken(way, first.size)
        ways[way] = ways[way][first.size :]


def shown(fed: object) -> object:
    """Return what can be compared of what was fed."""
    return (fed.step, fed.size, fed.id, fed.answers, fed.facts) if isinstance(fed, Frame) else fed


def test_garbage_raises_nothing_and_ends(speaker: Speaker) -> None:
    """Damaged conversations, cut anywhere: more bytes are needed, or something is taken, or it is
    opaque.
    """
    chance = random.Random(7)
    said = everything(speaker)
    for _ in range(GARBAGE):
        session = speaker.make().session(1, limit=LIMIT)
        ledger = speaker.make().ledger("k", None)
        for way, data in said:
            if not follows(session, way, damaged(chance, data), ledger):
                break


def damaged(chance: random.Random, data: bytes) -> bytes:
    """Return bytes with some of them changed, or gone."""
    changed = bytearray(data)
    for _ in range(chance.choice((0, 0, 1, 2, 5))):
        if changed:
            changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(
        changed[: chance.randrange(len(changed) + 1)] if chance.random() < 0.1 else changed
    )


def follows(session: Session, way: Direction, data: bytes, ledger: object) -> bool:
    """Do to bytes what a wire does; false where it would stop, for want of more or because they are
    opaque.
    """
    while data:
        fed = session.feed(way, data)
        if isinstance(fed, Opaque):
            assert fed.because
            assert "\n" not in fed.because
            return False
        if isinstance(fed, Need):
            assert fed.bytes > len(data), f"needs {fed.bytes} bytes and has {len(data)}"
            return False
        assert fed.size > 0
        if isinstance(fed, Frame):
            session.read(
                fed, data[: fed.size] if fed.size <= min(len(data), LIMIT) else None, ledger
            )
            session.sending(fed)
            lines = session.settled(fed, ledger, reached=len(data) >= fed.size)
            read_back(Line(kinds.FRAME, fed.facts))
            for told in lines:
                read_back(told)
        session.taken(way, fed.size)
        data = data[fed.size :]
    return True


def test_an_answer_may_come_before_its_question_has_gone(speaker: Speaker) -> None:
    """From ``sending`` on it is known what it answers, and what both are about."""
    heard, question, data = asked(speaker)
    ledger = heard.protocol.ledger("k", None)
    about = {RECORD} if speaker.reads else set()
    assert heard.session.read(question, data, ledger).subject.records == about
    answer = fed_answer(speaker, heard.session, speaker.answer)
    assert question.id in answer.answers
    told: Insight = heard.session.read(answer, speaker.answer, ledger)
    assert told.subject.records == about
    assert not told.error
    assert told.because is None


def test_lines_say_what_has_reached(speaker: Speaker) -> None:
    """Of a question and of its answer: of the record, in a kind that is known, and never what was
    not so.
    """
    lines = {}
    for reached in (True, False):
        heard, question, data = asked(speaker)
        ledger = heard.protocol.ledger("k", None)
        heard.session.read(question, data, ledger)
        answer = fed_answer(speaker, heard.session, speaker.answer)
        heard.session.read(answer, speaker.answer, ledger)
        for what, frame in (("question", question), ("answer", answer)):
            settled = list(heard.session.settled(frame, ledger, reached=reached))
            assert [read_back(event) for event in settled] == settled
            found = [event for event in settled if "record" in line_of(event)]
            told = [line_of(event)["record"] for event in found]
            assert told == ([RECORD] if speaker.reads else []), found
            lines[what, reached] = found
    for what in ("question", "answer") if speaker.reads else ():
        yes, no = lines[what, True], lines[what, False]
        assert yes != no, f"of the {what} it is said whether it has reached or not"
        assert all(
            getattr(event, "reached", reached) is reached
            for reached, found in ((True, yes), (False, no))
            for event in found
        )


def test_frames_have_facts_and_known_steps(speaker: Speaker) -> None:
    """Each its version and its number, as its line has them; what is known of a step fits the rules
    and its direction.
    """
    heard = ProtocolCase(speaker, everything(speaker), LIMIT)
    steps = heard.protocol.steps
    assert {way for way, _, _ in heard.frames()} == set(Direction)
    for way, frame, _ in heard.frames():
        assert (frame.step, way) in steps
        assert {"version", "corr"} <= frame.facts.keys()
        assert not frame.facts.keys() & LINE, "a line of the history has that already"
        read_back(Line(kinds.FRAME, frame.facts))
    numbers = [(way, frame.facts["corr"]) for way, frame, _ in heard.frames()]
    assert len(numbers) == len(set(numbers))
    for (_, way), step in steps.items():
        assert step.selects <= set(CONTENT)
        assert way is TO or not (step.errors or step.movable or step.durable)
    assert steps[speaker.step, TO].durable
    of_a_record = steps[speaker.step, TO].selects & steps[speaker.answered_by, FROM].selects
    assert ("record" in of_a_record) is speaker.reads


def test_a_client_is_known_by_what_it_has_said(speaker: Speaker) -> None:
    """And by nothing before."""
    session = speaker.make().session(1, limit=LIMIT)
    assert not session.owner()
    assert is_prefix(
        speaker.client("key"), str(ProtocolCase(speaker, speaker.opening("key"), 1).session.owner())
    )


def test_a_refusal_is_a_legal_answer_at_every_version(speaker: Speaker) -> None:
    """With each error that its step has, and with no other. An error about a right is told only to
    who needs the right.
    """
    protocol = speaker.make()
    questions = speaker.refused("k")
    assert bool(questions) == any(step.errors for step in protocol.steps.values())
    refused, told_by = set(), set()
    for data in questions:
        first = ProtocolCase(speaker, speaker.opening("k"), LIMIT).session.feed(TO, data)
        assert isinstance(first, Frame)
        refused.add(first.step)
        for error in protocol.steps[first.step, TO].errors:
            session = ProtocolCase(speaker, speaker.opening("k"), LIMIT).session
            frame = session.feed(TO, data)
            assert isinstance(frame, Frame)
            ledger = protocol.ledger("k", None)
            session.read(frame, data, ledger)
            session.sending(frame)
            try:
                refusal = session.refuse(frame, data, error)
            except UnableError as why:
                if f"is never refused by {error}" not in str(why):
                    raise
                continue
            told_by.add((frame.step, error))
            answer = fed_answer(speaker, session, refusal)
            assert frame.id in answer.answers
            told = session.read(answer, refusal, ledger)
            assert told.because is None, f"{frame.step} {frame.facts['version']}: {told.because}"
            assert told.error or not answer.head, (
                f"{frame.step} {frame.facts['version']} is not refused by {error}"
            )
    assert told_by == {
        (step, error) for step in refused for error in protocol.steps[step, TO].errors
    }
    heard, question, data = asked(speaker)
    with pytest.raises(UnableError) as never:
        heard.session.refuse(question, data, "no such error")
    assert "\n" not in str(never.value)
    answered = {step for (step, _), known in protocol.steps.items() if known.errors}
    assert refused <= answered


def test_what_is_movable_is_known_beforehand(speaker: Speaker) -> None:
    """Where a step may not be moved, its frame says why; where it may, its bytes are
    what is moved.
    """
    heard, question, data = asked(speaker)
    move = heard.session.move(question, data)
    assert isinstance(move, Move) is heard.protocol.steps[question.step, TO].movable
    if isinstance(move, Immovable):
        assert move.because
    else:
        assert move.frame == data


def test_a_large_frame_is_known_by_its_beginning(speaker: Speaker) -> None:
    """However large it is: nobody has to keep it."""
    heard = ProtocolCase(speaker, speaker.opening("k"), LIMIT)
    head = speaker.large("k", 100 * MEGABYTE)
    fed = heard.session.feed(TO, head + bytes(64))
    assert isinstance(fed, Unframed | Frame), fed
    assert fed.size == (100 * MEGABYTE if speaker.reads else len(head) + 64)


def test_heart_beats_are_no_frames_and_have_a_time(speaker: Speaker) -> None:
    """Where there are any; and where both sides have agreed on them, how long a direction may be
    silent is known.
    """
    heard = ProtocolCase(
        speaker, [*speaker.opening("k"), (TO, speaker.beat), (FROM, speaker.beat)], LIMIT
    )
    for way in Direction:
        fed = [
            each for each, data in heard.ears[way].heard if speaker.beat and data == speaker.beat
        ]
        assert all(isinstance(each, Unframed) or each.keepalive for each in fed)
        assert len(fed) == bool(speaker.beat)
        silence = heard.session.silence_s(way)
        assert (silence is not None and silence > 0) if speaker.beat else silence is None
