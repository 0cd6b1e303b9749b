"""Session guarantees that a declaration claims: planted anomalies, one history a class. Each is
convicted, and its right twins, which differ in the one thing that proves it, are kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest

from harness.judge import guarantees
from harness.judge.verdict import Kind
from harness.model.plan import Plan
from harness.model.scenario import Evidence, Role
from harness.model.semantics import Guarantee
from tests.judge.histories import TOPIC
from tests.judge.runs import (
    RECORDS,
    TARGET,
    about,
    all_of,
    append,
    first,
    judged,
    lose,
    marked,
    place,
    plan,
    run,
    without,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.judge.histories import Row, Story

    Change = Callable[[Story], object]

MONOTONIC: Final = (Guarantee.MONOTONIC,)
OWN: Final = (Guarantee.READ_YOUR_WRITES,)
READER, COORDINATOR, WRITER, OTHER = 1, 2, 3, 7
"""Connections: of the consumer to its logs and to its group, of the producer, another one."""
FIRST, LAST = "k1-1", "k1-5"
"""The first and the last record of the target's partition."""
PARTITION = place(TARGET)[0]
RETRY: Final = "retry"


def moment(story: Story, record: str, event: str = "fetched") -> int:
    """Return when a record's line of a kind was written."""
    return int(first(story, event, record=record)["t"])


def frame(story: Story, t: int, conn: int, api: str, **more: Any) -> Row:
    """The wire saw a frame."""
    row = story.tell("frame", "wire", api=api, dir="request", role="consumer", conn=conn)
    row.update({"t": t, **more})
    return row


def connects(story: Story, t: int, conn: int, role: str = "consumer", phase: str = "open") -> None:
    """A connection is opened, or closed."""
    row = story.tell("conn", "wire", phase=phase, conn=conn, role=role, node=role)
    row["t"] = t


def asks(story: Story, t: int) -> None:
    """The consumer asks for its group's position: it was assigned partitions anew."""
    frame(story, t, COORDINATOR, "OffsetFetch", corr=t)


def given(
    story: Story, t: int, record: str, offset: int, *, conn: int = READER, asked: int | None = None
) -> Row:
    """A reader asks for records, and is given one."""
    frame(story, t - 2 if asked is None else asked, conn, "Fetch", corr=t)
    frame(story, t - 1, conn, "Fetch", corr=t, dir="response")
    row = story.fetched(record, PARTITION, offset, reached=True)
    row.update(conn=conn, t=t)
    return row


def saves(
    story: Story,
    t: int,
    offset: int,
    *,
    partition: int = PARTITION,
    topic: str = TOPIC,
    **more: Any,
) -> None:
    """The consumer's group saves a position, and is told so."""
    about_it = {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "request": f"{COORDINATOR}:{t}",
        "group": more.pop("group", "g"),
    }
    asked = story.tell("committed", "wire", transactional_id=more.pop("within", None), **about_it)
    asked.update(t=more.pop("asked", t), reached=True)
    answer = story.tell("commit_answer", "wire", error=more.pop("error", 0), **about_it)
    answer.update(t=t, reached=True)


def watched() -> Story:
    """The whole run, and what the wire saw of connections, requests and saved positions."""
    story = run()
    connects(story, 1, READER)
    connects(story, 1, COORDINATOR)
    connects(story, 1, WRITER, "producer")
    asks(story, 2)
    for number, record in enumerate(RECORDS):
        partition, offset = place(record)
        at = moment(story, record)
        frame(story, at - 2, READER, "Fetch", corr=number)
        frame(story, at - 1, READER, "Fetch", corr=number, dir="response")
        saves(story, moment(story, record, "delivered") + 1, offset + 1, partition=partition)
        sent = first(story, "sent", record=record)
        sent.update(request=f"{WRITER}:{number}", partition=partition)
        answer = story.tell(
            "produce_answer", "wire", record=record, request=sent["request"], error=0, reached=True
        )
        answer.update(base_offset=offset, offset=offset, t=sent["t"] + 1)
    return story


def rests(story: Story) -> int:
    """Return a moment behind the last delivery and before the drain."""
    return int(first(story, "drain", phase="begun")["t"]) - 4


# --- skips ----------------------------------------------------------------------------------------


def skipped(story: Story) -> None:
    """The consumer is given the records around the target, and not the target."""
    lose(story, TARGET, "fetched")


def assigned_between(story: Story) -> None:
    """It was assigned the partition anew in between: another member may have had the target."""
    skipped(story)
    asks(story, moment(story, LAST) - 3)


def asked_before(story: Story) -> None:
    """The first record, which was asked for before the assignment, comes behind it."""
    skipped(story)
    asked, late = moment(story, FIRST) - 2, moment(story, LAST) - 10
    lose(story, FIRST, "fetched")
    without(story, lambda row: row["event"] == "frame" and row.get("corr") == RECORDS.index(FIRST))
    asks(story, late - 5)
    given(story, late, FIRST, 0, asked=asked)


def unplaced(story: Story) -> None:
    """Nobody asks for a saved position: the reader may place itself."""
    skipped(story)
    without(story, lambda row: row.get("api") == "OffsetFetch")


def unread(story: Story) -> None:
    """The wire has read the target's id nowhere in that topic."""
    skipped(story)
    without(story, lambda row: about(row, TARGET, "sent", "produce_answer"))
    first(story, "unsent", record=TARGET)["topic"] = TOPIC
    without(story, lambda row: about(row, TARGET, "unsent"))


def aborted(story: Story) -> None:
    """Where nothing was given, an aborted copy stands."""
    marked(story)
    append(story, TARGET, PARTITION, visible=False, attempt="producer-1.3.1")
    saves(story, rests(story), 4)
    given(story, rests(story) + 2, FIRST, 9)


# --- steps back -----------------------------------------------------------------------------------


def went_back(story: Story) -> None:
    """The consumer is given the first record again, behind which its group has saved positions."""
    given(story, rests(story), FIRST, 0)


def in_one_answer(story: Story) -> None:
    """The reader was given all its records in one answer, to the request for the first one."""
    at = moment(story, RECORDS[0])
    without(story, lambda row: row["event"] == "frame" and row["api"] == "Fetch" and row["t"] > at)


def went_back_after_one_answer(story: Story) -> None:
    """It asked again when positions were saved."""
    in_one_answer(story)
    went_back(story)


def went_back_in_one_answer(story: Story) -> None:
    """The first record comes again in that answer: no position was saved when it was asked for."""
    in_one_answer(story)
    story.fetched(FIRST, PARTITION, 0, reached=True).update(conn=READER, t=rests(story))


def went_back_unsaved(story: Story) -> None:
    """No position was saved: a library may fetch again what it has thrown away."""
    without(story, lambda row: row["event"] in {"committed", "commit_answer"})
    went_back(story)


def went_back_before(story: Story) -> None:
    """The last one again, before its position was saved."""
    at = moment(story, LAST)
    given(story, at + 4, LAST, place(LAST)[1], asked=at + 2)


def went_back_on_another(story: Story) -> None:
    """Another connection of the stage reads: a member that does not know what it has lost."""
    connects(story, rests(story) - 5, OTHER)
    given(story, rests(story), FIRST, 0, conn=OTHER)


def went_back_of_two_groups(story: Story) -> None:
    """The stage saves positions for two groups."""
    went_back(story)
    saves(story, rests(story) - 4, 1, group="h")


def refused(story: Story) -> None:
    """No position was ever saved: each request was refused."""
    for row in story.events:
        if row["event"] == "commit_answer":
            row["error"] = 27
    went_back(story)


def starts_again(story: Story, *, whole: bool = True) -> None:
    """The consumer is started anew, and is given the first record, though a position is saved."""
    at = rests(story)
    for conn in (READER, COORDINATOR)[: 2 if whole else 1]:
        connects(story, at - 6, conn, phase="close")
    row = first(story, "node", role="consumer", phase="started")
    story.tell(**{**row, "incarnation": 2})["t"] = at - 5
    connects(story, at - 4, OTHER)
    given(story, at, FIRST, 0, conn=OTHER)


def starts_in_part(story: Story) -> None:
    """Only a part of the stage was started anew."""
    starts_again(story, whole=False)


def starts_where_it_was(story: Story) -> None:
    """Nothing was saved before it was started anew."""
    without(story, lambda row: row["event"] in {"committed", "commit_answer"})
    starts_again(story)


# --- positions, and writes ------------------------------------------------------------------------


def position_back(story: Story) -> None:
    """The group saves a position that is lower than the last one, and then the last one again."""
    saves(story, rests(story), 1)
    saves(story, rests(story) + 1, 3)


def position_overtaken(story: Story) -> None:
    """The lower one was asked for before the other was saved."""
    saves(story, rests(story), 1, asked=moment(story, TARGET))


def position_of_another(story: Story) -> None:
    """Another group saves it."""
    saves(story, rests(story), 1, group="h")


def position_refused(story: Story) -> None:
    """The broker refuses the lower one."""
    saves(story, rests(story), 1, error=22)


def ended(story: Story, *, commit: bool) -> None:
    """A lower position is sent in a transaction, which ends."""
    at = rests(story)
    saves(story, at - 4, 1, within="tx")
    about_it = {"transactional_id": "tx", "request": "9:1"}
    story.tell("end_txn", "wire", commit=commit, reached=True, **about_it)["t"] = at - 3
    story.tell("end_txn_answer", "wire", error=0, reached=True, **about_it)["t"] = at - 2


def wrote_back(story: Story) -> None:
    """The last record is acknowledged at an offset that was used before it was sent."""
    first(story, "produce_answer", record=LAST)["offset"] = 0


def repeated(story: Story) -> None:
    """An idempotent producer sends the first record again, and is told where that one is."""
    sent = first(story, "sent", record=FIRST)
    sent.update(producer_id=4, producer_epoch=0, sequence=0)
    answer = first(story, "produce_answer", record=FIRST)
    for row in (sent, answer):
        again = story.tell(**{**row, "request": f"{WRITER}:90"})
        again["t"] = rests(story) + (row is answer)


def side_by_side(story: Story) -> None:
    """The lower one was sent on another connection, before the other was acknowledged."""
    wrote_back(story)
    sent, at = first(story, "sent", record=LAST), moment(story, FIRST, "sent")
    sent.update(t=at, request=f"{OTHER}:1")
    first(story, "produce_answer", record=LAST)["request"] = sent["request"]
    first(story, "produce_answer", record=TARGET)["reached"] = False


def untold(story: Story) -> None:
    """No program was told of the lower offset."""
    wrote_back(story)
    first(story, "produce_answer", record=LAST)["reached"] = False


# --- what a program wrote itself ------------------------------------------------------------------


def retries(story: Story, **more: Any) -> None:
    """The consumer writes the target into a topic for retries, at 4, and is told so."""
    at = rests(story) - 40
    connects(story, at - 9, OTHER, more.pop("role", "consumer"))
    sent = story.sent(TARGET, None, f"{OTHER}:1", **more)
    sent.update(topic=RETRY, t=at)
    row = story.tell("produce_answer", "wire", record=TARGET, request=f"{OTHER}:1", error=0)
    row.update(offset=4, base_offset=4, reached=True, t=at + 1)
    asks(story, at + 2)


def reads_retries(story: Story, *offsets: int, start: int = -30) -> None:
    """The consumer is given records of the topic for retries."""
    for number, offset in enumerate(offsets):
        record = TARGET if offset == 4 else RECORDS[0]
        row = given(story, rests(story) + start + 4 * number, record, offset)
        row.update(topic=RETRY, partition=0)


def passes(story: Story) -> None:
    """It is given what is before its own write, and what is behind it."""
    retries(story)
    reads_retries(story, 3, 5)


def passes_by_position(story: Story) -> None:
    """It is given nothing behind it, and its group saves a position there."""
    retries(story)
    reads_retries(story, 3)
    saves(story, rests(story) - 20, 4, partition=0, topic=RETRY)
    saves(story, rests(story) - 10, 6, partition=0, topic=RETRY)


def reads_it(story: Story) -> None:
    """It is given its own write, too."""
    retries(story)
    reads_retries(story, 3, 4, 5)


def reads_it_later(story: Story) -> None:
    """It is given its own write in the end."""
    passes(story)
    reads_retries(story, 4, start=-10)


def not_told(story: Story) -> None:
    """It was never told that the write is stored."""
    passes(story)
    first(story, "produce_answer", request=f"{OTHER}:1")["reached"] = False


def begins_behind(story: Story) -> None:
    """Its readers begin behind the write."""
    retries(story)
    reads_retries(story, 5, 6)
    saves(story, rests(story) - 10, 6, partition=0, topic=RETRY)


def of_another_stage(story: Story) -> None:
    """Another stage has written it."""
    retries(story, role="producer")
    reads_retries(story, 3, 5)


def in_a_transaction(story: Story, *, commit: bool) -> None:
    """It wrote in a transaction, which ended."""
    retries(story, transactional=True, transactional_id="tx")
    reads_retries(story, 3, 5)
    about_it = {"transactional_id": "tx", "request": f"{OTHER}:2"}
    at = rests(story) - 38
    story.tell("end_txn", "wire", commit=commit, reached=True, **about_it)["t"] = at
    row = story.tell("end_txn_answer", "wire", error=0, reached=True, **about_it)
    row["t"] = at + 1


def assigned_while_reading(story: Story) -> None:
    """It was assigned the topic anew in between."""
    passes(story)
    asks(story, rests(story) - 29)


@dataclass(frozen=True)
class Planted:
    """One class: what is claimed, how it is planted, what is said of it, and its right twins."""

    claimed: tuple[Guarantee, ...]
    wrong: dict[str, Change]
    because: str
    twins: dict[str, Change]


CORPUS: dict[str, Planted] = {
    "a skip": Planted(
        MONOTONIC,
        {"in one session": skipped},
        rf"monotonic is claimed: the consumer skipped {TARGET} at 1 of t/{PARTITION}: it was given "
        "0 and 2 on connection 1, and not this one",
        {
            "nothing skipped": lambda _: None,
            "assigned anew in between": assigned_between,
            "asked for before the assignment": asked_before,
            "a reader that places itself": unplaced,
            "an id that the wire cannot read": unread,
            "an aborted copy": aborted,
        },
    ),
    "a step back": Planted(
        MONOTONIC,
        {"in one session": went_back, "after one answer": went_back_after_one_answer},
        rf"monotonic is claimed: the consumer went back: it was given {FIRST} at 0 of "
        rf"t/{PARTITION} at 0\.\d+ s, and the group g had saved position 3 at 0\.\d+ s",
        {
            "no position saved": went_back_unsaved,
            "a refused position": refused,
            "asked for before the position was saved": went_back_before,
            "in one answer": went_back_in_one_answer,
            "another connection": went_back_on_another,
            "two groups": went_back_of_two_groups,
        },
    ),
    "a start behind the saved position": Planted(
        MONOTONIC,
        {"of the whole stage": starts_again},
        rf"the consumer went back: it was given {FIRST} at 0 of t/{PARTITION} at 0\.\d+ s, and the "
        "group g had saved position 3",
        {"of a part of the stage": starts_in_part, "no position saved": starts_where_it_was},
    ),
    "a position that goes back": Planted(
        MONOTONIC,
        {"a request": position_back, "a transaction": lambda s: ended(s, commit=True)},
        rf"monotonic is claimed: the group g saved position 1 of t/{PARTITION} at 0\.\d+ s, after "
        r"3 at 0\.\d+ s",
        {
            "asked for before": position_overtaken,
            "another group": position_of_another,
            "refused": position_refused,
            "an aborted transaction": lambda s: ended(s, commit=False),
        },
    ),
    "a write at an earlier offset": Planted(
        MONOTONIC,
        {"on one connection": wrote_back},
        rf"monotonic is claimed: the producer wrote backwards: {LAST} was acknowledged at 0 of "
        rf"t/{PARTITION} at 0\.\d+ s, and {FIRST}, sent before it, at 0",
        {
            "a repeated request": repeated,
            "another connection at the same time": side_by_side,
            "nobody was told": untold,
        },
    ),
    "an own write that is passed": Planted(
        OWN,
        {
            "in one session": passes,
            "by a saved position": passes_by_position,
            "in a transaction": lambda s: in_a_transaction(s, commit=True),
        },
        rf"read-your-writes is claimed: the consumer did not read its own write: {TARGET} at 4 of "
        r"retry/0, acknowledged at 0\.\d+ s; (it was given 3, 5 on connection 1|its group g saved "
        r"position 6 at 0\.\d+ s)",
        {
            "it is read": reads_it,
            "it is read later": reads_it_later,
            "nobody was told": not_told,
            "its readers begin behind it": begins_behind,
            "another stage wrote it": of_another_stage,
            "an aborted transaction": lambda s: in_a_transaction(s, commit=False),
            "assigned anew in between": assigned_while_reading,
        },
    ),
}
RIGHT_PLAN: dict[str, Any] = {"evidence": Evidence("rule", killed=(Role.PRODUCER,))}


def found_in(name: str, change: Change, claimed: tuple[Guarantee, ...] | None = None) -> Any:
    """Judge the run with a change, claiming what a class claims."""
    story = watched()
    change(story)
    of = CORPUS[name].claimed if claimed is None else claimed
    return judged(story, guarantees=of, **RIGHT_PLAN).verdict


@pytest.mark.parametrize(
    ("name", "way"), [(name, way) for name, each in CORPUS.items() for way in each.wrong]
)
def test_a_planted_anomaly_is_convicted(name: str, way: str) -> None:
    """By a reason that says what was seen, where and when; and only where it is claimed."""
    planted = CORPUS[name]
    found = found_in(name, planted.wrong[way])
    assert (found.kind, found.by_fault) == (Kind.BROKEN, True), found
    assert re.search(planted.because, found.reason), found.reason
    assert "\n" not in found.reason
    assert found_in(name, planted.wrong[way], claimed=()).kind is Kind.KEPT


@pytest.mark.parametrize(
    ("name", "twin"), [(name, twin) for name, each in CORPUS.items() for twin in each.twins]
)
def test_its_right_twin_is_kept(name: str, twin: str) -> None:
    found = found_in(name, CORPUS[name].twins[twin])
    assert found.kind is Kind.KEPT, found


@pytest.mark.parametrize(
    ("check", "name"),
    [
        ("_skips", "a skip"),
        ("_backward", "a step back"),
        ("_backward", "a start behind the saved position"),
        ("_positions_back", "a position that goes back"),
        ("_writes_back", "a write at an earlier offset"),
        ("_passed_in_session", "an own write that is passed"),
        ("_passed_by_position", "an own write that is passed"),
    ],
)
def test_nothing_else_convicts_it(check: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarantees, check, lambda *_: ())
    assert any(found_in(name, wrong).kind is Kind.KEPT for wrong in CORPUS[name].wrong.values())


@pytest.mark.parametrize(
    ("change", "claimed", "said"),
    [
        (
            lambda _: None,
            MONOTONIC,
            "monotonic kept by 1 reading connection, 2 saved positions, 2 written partitions",
        ),
        (
            unplaced,
            MONOTONIC,
            "monotonic not judged of the readers of the consumer: they ask for no saved position",
        ),
        (
            went_back_of_two_groups,
            MONOTONIC,
            "monotonic not judged of backward polls of the consumer: it has 2 groups",
        ),
        (reads_it, OWN, "read-your-writes kept by 1 own write"),
        (
            begins_behind,
            OWN,
            "read-your-writes kept by 1 own write that no reader has passed",
        ),
        (
            lambda _: None,
            OWN,
            "read-your-writes not judged of any stage: none was given records of a topic that it",
        ),
    ],
)
def test_a_kept_verdict_says_what_was_judged(
    change: Change, claimed: tuple[Guarantee, ...], said: str
) -> None:
    story = watched()
    change(story)
    assert said in judged(story, guarantees=claimed).verdict.reason


def test_without_a_wire_nothing_is_judged_and_that_is_said() -> None:
    found = judged(run(), guarantees=MONOTONIC).verdict
    assert found.kind is Kind.KEPT
    assert "monotonic not judged" in found.reason
    assert "kept by" not in found.reason


def test_a_log_that_loses_records_is_not_judged_by_skips() -> None:
    """The fault has taken them away; what goes back goes back all the same."""
    changes: dict[str, Any] = {
        "guarantees": MONOTONIC,
        "evidence": Evidence("rule", killed=(Role.PRODUCER,), forgotten=True),
    }
    for change, said in ((skipped, False), (went_back, True)):
        story = watched()
        change(story)
        row = {"phase": "forgot", "fault": "kill", "t": first(story, "fault", phase="healed")["t"]}
        story.tell("fault", "runner").update(row)
        assert ("is claimed" in judged(story, **changes).verdict.reason) is said


def test_a_plan_says_what_is_claimed() -> None:
    """It is saved, and sealed; a plan that says nothing of it claims nothing."""
    claimed = plan(guarantees=tuple(Guarantee))
    again = Plan.from_json(claimed.to_json())
    assert again.guarantees == tuple(Guarantee)
    assert all(isinstance(each, Guarantee) for each in again.guarantees)
    assert claimed.seal != plan().seal


def test_findings_are_told_with_all_others() -> None:
    story = watched()
    for number in range(5):
        saves(story, rests(story) - number % 2, 1 + number % 2)
    story = all_of(skipped, wrote_back)(story) or story
    reason = judged(story, guarantees=MONOTONIC).verdict.reason
    assert "skipped" in reason
    assert re.search(r"and \d+ more", reason), reason
