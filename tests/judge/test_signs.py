"""Signs: each is seen where it is, nowhere else, and by whoever knows it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.judge.signs import (
    ABORTED,
    ABSORBED,
    DELIVERED_AGAIN,
    END_REFUSED,
    ENDED_AGAIN,
    NOT_GIVEN_AGAIN,
    NOT_RESENT,
    REPEATED_REQUEST,
    RESUMED_PAST,
    SENT_ANEW,
    TAKEN_AGAIN,
)
from harness.proofs.answer import ASKED_ANEW
from harness.proofs.power import TOLD_TO_FLUSH
from harness.services.postgres.signs import COMMITTED_AGAIN, DURABLE, NOT_REPEATED
from harness.systems.kafka.signs import (
    ALONE,
    ASKED_AGAIN,
    FLUSHED,
    FOUND,
    MARKED_AGAIN,
    REPLICATED,
    TAKEN_BEFORE,
    UNGOVERNED,
    WRITTEN_AGAIN,
    WRITTEN_UNTOLD,
)
from harness.systems.spark.signs import REPLAYED
from tests.judge.histories import RESULTS, Story
from tests.judge.of_engines import knowers, signs_of_engines
from tests.judge.runs import RECORDS, TARGET, about, judged, place, run, without

JUDGE = Path(__file__).parent
SYSTEMS = Path(__file__).parents[1] / "systems"
ENGINES = Path(__file__).parents[2] / "engines"

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.model.sign import Sign


def resumed(story: Story, where: str, partition: int | None, *positions: int) -> None:
    """Programs go on from these positions, one after the other."""
    for position in positions:
        story.tell("resumed", "consumer-1", where=where, partition=partition, position=position)


def power_lost(story: Story, *records: str) -> None:
    """A broker loses its power, and has flushed these records."""
    story.tell("power", node="broker-1", names="ext4", calls=9, flushes=3, records=records)


def resent(story: Story) -> None:
    """Send the target's attempt again: after a cut, over another connection."""
    story.sent(TARGET, "producer-2.3.1", "9/9")


def offered_again(story: Story) -> None:
    """Tell the one request twice, and send the target in another attempt: the program's doing, not
    the client's.
    """
    story.sent(TARGET, "producer-2.3.1", "2/3")
    story.sent(TARGET, "producer-2.9.1", "9/9")


def resent_in_doubt(story: Story) -> None:
    """Send the target again after no answer came."""
    resent(story)
    without(story, lambda row: about(row, TARGET, "acked"))


def batch(story: Story, by: str, behind: int) -> object:
    """Tell of a batch that begins at the target, or so many offsets behind it."""
    partition, offset = place(TARGET)
    return story.tell(
        "batch",
        by,
        phase="after-offset-log",
        batch=0,
        partition=partition,
        offset=offset + behind,
        position=offset + behind + 1,
    )


def ending(story: Story, record: str, request: str, outcome: str | None = None) -> object:
    """Tell that the end of a record's transaction was asked for, or answered."""
    return story.tell(
        "ending", "wire", record=record, request=request, outcome=outcome, reached=True
    )


def commit(
    story: Story, record: str, request: str, outcome: str | None = None, *, reached: bool = True
) -> object:
    """Tell that a database was asked to commit what holds a record, or that it answered."""
    return story.tell(
        "database_commit", "wire", record=record, request=request, outcome=outcome, reached=reached
    )


def copied(story: Story) -> object:
    """Let a follower fetch the target."""
    partition, offset = place(TARGET)
    return story.tell(
        "replicated",
        "wire",
        record=TARGET,
        topic="t",
        partition=partition,
        offset=offset,
        epoch=0,
        conn=1,
        follower=2,
        reached=True,
    )


def acknowledged(story: Story, *, reached: bool, again: bool = False) -> None:
    """Let the broker take the target's acknowledgement, and for good; ``again``: it was given to
    somebody since.
    """
    story.tell(
        "acknowledged",
        "wire",
        record=TARGET,
        request="1:5",
        how="ack",
        outcome="taken",
        reached=reached,
    )
    if again:
        story.tell(
            "fetched",
            "wire",
            record=TARGET,
            topic="t",
            partition=0,
            offset=0,
            epoch=0,
            conn=1,
            reached=True,
        )
    story.tell("removed", place="t:1", record=TARGET, why="ack")


def written_down(story: Story, *, again: bool = False) -> None:
    """Let its acknowledgement be written down, and the answer be lost; ``again``: it was given to
    somebody since.
    """
    story.tell(
        "share_state",
        "wire",
        record=TARGET,
        request="1:5",
        state="acknowledged",
        outcome="taken",
        reached=False,
    )
    if again:
        story.tell(
            "fetched",
            "wire",
            record=TARGET,
            topic="t",
            partition=0,
            offset=0,
            epoch=0,
            conn=1,
            reached=True,
        )
    story.tell("removed", place="t:1", record=TARGET, why="ack")


def acknowledged_before(story: Story, *, fired: bool) -> None:
    """Let it be taken, and answered; ``fired``: and then the fault fires, else before."""
    if fired:
        next(row for row in story.events if row["event"] == "fault" and row["phase"] == "fired")[
            "t"
        ] = story.now + 11
    acknowledged(story, reached=True)


def written(story: Story, *requests: str, state: str = "acknowledged") -> None:
    """Let the broker have the target's state written down by these requests."""
    for request in requests:
        story.tell(
            "share_state",
            "wire",
            record=TARGET,
            request=request,
            state=state,
            outcome=None,
            reached=True,
        )


def refused(story: Story, client: str, other: str) -> None:
    """Let the wire refuse a client the target's request, and one of them ask again."""
    asked = {"api": "Produce", "role": "producer", "conn": 1}
    story.tell(
        "rule",
        "wire",
        rule="fault",
        phase="answered",
        reached=True,
        records=[TARGET],
        client=client,
        corr=5,
        **asked,
    )
    story.tell("frame", "wire", dir="request", client=other, corr=6, **asked)


SIGNS: dict[Sign, Callable[[Story], object]] = {
    REPEATED_REQUEST: resent,
    SENT_ANEW: offered_again,
    TAKEN_AGAIN: lambda s: (s.taken(TARGET, "producer-1"), s.taken(TARGET, "producer-2")),
    ABORTED: lambda s: s.stored(TARGET, 1, 0, visible=False, attempt="producer-1.3.1"),
    DELIVERED_AGAIN: lambda s: s.delivered(TARGET, *place(TARGET)),
    ABSORBED: lambda s: s.absorbed(TARGET, 1, 2),
    NOT_RESENT: lambda s: without(s, lambda row: about(row, TARGET, "acked")),
    RESUMED_PAST: lambda s: resumed(s, "group", place(TARGET)[0], 0, place(TARGET)[1] + 1),
    ENDED_AGAIN: lambda s: (ending(s, TARGET, "1:5"), ending(s, TARGET, "2:1")),
    END_REFUSED: lambda s: ending(s, TARGET, "1:5", "refused"),
    COMMITTED_AGAIN: lambda s: (commit(s, TARGET, "1:1", reached=False), commit(s, TARGET, "2:1")),
    NOT_REPEATED: lambda s: (
        commit(s, TARGET, "1:1"),
        commit(s, TARGET, "1:1", "committed", reached=False),
    ),
    DURABLE: lambda s: (commit(s, TARGET, "1:1"), commit(s, TARGET, "1:1", "committed")),
    ALONE: lambda s: s.tell("alone", "runner", record=TARGET),
    UNGOVERNED: lambda s: s.tell("ungoverned", "runner", record=TARGET),
    REPLICATED: lambda s: (
        copied(s),
        s.tell("node", "runner", node="broker-1", role="leader", phase="exited"),
    ),
    FLUSHED: lambda s: s.tell(
        "flushed", "runner", partition=place(TARGET)[0], offset=place(TARGET)[1] + 1
    ),
    REPLAYED: lambda s: (batch(s, "driver-1-jvm", 0), batch(s, "driver-2-jvm", 0)),
    ASKED_AGAIN: lambda s: (
        s.tell("rule", "wire", rule="fault", phase="hit", api="AddOffsetsToTxn"),
        s.tell("rule", "wire", rule="fault", phase="delivered", api="AddOffsetsToTxn", error=0),
        s.tell("asked_again", "wire", record=TARGET, api="AddOffsetsToTxn"),
    ),
    MARKED_AGAIN: lambda s: s.tell("marked_again", "wire", record=TARGET),
    FOUND: lambda s: s.tell("added", "runner", topic="t", partition=place(TARGET)[0], before=1),
    NOT_GIVEN_AGAIN: lambda s: acknowledged(s, reached=False),
    WRITTEN_UNTOLD: written_down,
    TAKEN_BEFORE: lambda s: acknowledged_before(s, fired=True),
    WRITTEN_AGAIN: lambda s: written(s, "1:5", "1:6"),
    ASKED_ANEW: lambda s: refused(s, "producer-2", "producer-2"),
    TOLD_TO_FLUSH: lambda s: power_lost(s, TARGET),
}
NEAR_MISSES: dict[Sign, Callable[[Story], object]] = {
    TOLD_TO_FLUSH: lambda s: power_lost(s, RECORDS[0]),
    REPEATED_REQUEST: offered_again,
    SENT_ANEW: lambda s: s.sent(TARGET, "producer-9.1.1", "9/9"),
    TAKEN_AGAIN: lambda s: s.taken(TARGET, "producer-2"),
    ABORTED: lambda s: s.stored(RECORDS[0], 1, 0, visible=False, attempt="producer-1.1.9"),
    DELIVERED_AGAIN: lambda s: s.delivered(RECORDS[0], *place(RECORDS[0])),
    ABSORBED: lambda s: s.absorbed(RECORDS[0], 1, 2),
    NOT_RESENT: resent_in_doubt,
    RESUMED_PAST: lambda s: resumed(s, "group", place(TARGET)[0], 0, place(TARGET)[1]),
    ENDED_AGAIN: lambda s: (
        ending(s, TARGET, "1:5"),
        ending(s, TARGET, "1:5", "taken"),
        ending(s, RECORDS[0], "2:1"),
    ),
    COMMITTED_AGAIN: lambda s: (
        commit(s, TARGET, "1:1"),
        commit(s, TARGET, "1:1"),
        commit(s, RECORDS[0], "2:1"),
    ),
    NOT_REPEATED: lambda s: (commit(s, TARGET, "1:1"), commit(s, TARGET, "1:1", "rolled back")),
    DURABLE: lambda s: (commit(s, TARGET, "1:1"), commit(s, TARGET, "1:1", "refused")),
    END_REFUSED: lambda s: (
        ending(s, TARGET, "1:5", "taken"),
        ending(s, RECORDS[0], "1:6", "refused"),
    ),
    ALONE: lambda s: s.tell("alone", "runner", record=RECORDS[0]),
    UNGOVERNED: lambda s: s.tell("ungoverned", "runner", record=RECORDS[0]),
    REPLICATED: lambda s: (
        s.tell("node", "runner", node="broker-1", role="leader", phase="exited"),
        copied(s),
    ),
    FLUSHED: lambda s: s.tell(
        "flushed", "runner", partition=place(TARGET)[0], offset=place(TARGET)[1]
    ),
    REPLAYED: lambda s: (
        batch(s, "driver-1-jvm", 0),
        batch(s, "driver-1-jvm", 0),
        batch(s, "driver-2-jvm", 1),
    ),
    ASKED_AGAIN: lambda s: (
        s.tell("rule", "wire", rule="fault", phase="hit", api="AddOffsetsToTxn"),
        s.tell("asked_again", "wire", record=TARGET, api="AddPartitionsToTxn"),
    ),
    MARKED_AGAIN: lambda s: s.tell("asked_again", "wire", record=TARGET),
    FOUND: lambda s: s.tell("added", "runner", topic="t", partition=1 - place(TARGET)[0], before=1),
    NOT_GIVEN_AGAIN: lambda s: acknowledged(s, reached=False, again=True),
    WRITTEN_UNTOLD: lambda s: written_down(s, again=True),
    TAKEN_BEFORE: lambda s: acknowledged_before(s, fired=False),
    WRITTEN_AGAIN: lambda s: written(s, "1:5"),
    ASKED_ANEW: lambda s: refused(s, "producer-2", "producer-3"),
}


def quiet() -> Story:
    """Tell the run without its own signs: taken once, sent once."""
    story = run()
    without(story, lambda row: about(row, TARGET, "unsent"))
    without(story, lambda row: about(row, TARGET, "taken") and row["by"] == "producer-1")
    without(story, lambda row: row["event"] == "resumed")
    return story


def shown(story: Story, record: str = TARGET) -> frozenset[Sign]:
    """Return the signs that a record shows."""
    return judged(story).signs.of(record)


def test_every_sign_is_tried() -> None:
    """Whoever knows a sign says so, also where nothing shows it; each is seen below, and nearly
    seen.
    """
    assert (
        {str(sign) for sign in judged(quiet()).signs.seen} - signs_of_engines()
        == set(map(str, SIGNS))
        == set(map(str, NEAR_MISSES))
    )


def test_every_sign_of_an_engine_is_tried_with_it() -> None:
    """By whom it is known, in the folder of its tests; what several share, in the judge's."""
    assert signs_of_engines()
    for name, known in knowers().items():
        for each in known:
            ours = each.__module__.startswith("harness.judge.")
            folders = [JUDGE] if ours else [SYSTEMS / name, ENGINES / name / "tests"]
            tests = "".join(
                file.read_text(encoding="utf-8")
                for folder in folders
                for file in folder.glob("test_*.py")
            )
            assert each.__name__ in tests, f"no test in {folders[0]} tries {each.__name__}"


def test_a_quiet_run_shows_no_sign() -> None:
    assert shown(quiet()) == frozenset()


@pytest.mark.parametrize("sign", SIGNS)
def test_a_sign_is_seen_where_it_is(sign: Sign) -> None:
    """What shows that a protection worked is seen on its record, alone, and on no other record."""
    story = quiet()
    SIGNS[sign](story)
    assert shown(story) == {sign}
    others = {record: shown(story, record) - {sign} for record in RECORDS if record != TARGET}
    assert set(others.values()) == {frozenset()}


@pytest.mark.parametrize("sign", SIGNS)
def test_a_near_miss_is_no_sign(sign: Sign) -> None:
    """The same thing at another record, seen once, or one short of the target, is no sign for the
    target.
    """
    story = quiet()
    NEAR_MISSES[sign](story)
    assert sign not in shown(story)


def test_a_fetch_that_did_not_arrive_and_one_that_did_are_two_deliveries() -> None:
    """A response that was lost on its way and fetched again shows that the record was delivered
    again.
    """
    story = quiet()
    story.fetched(TARGET, *place(TARGET), reached=False)
    assert shown(story) == {DELIVERED_AGAIN}


def test_what_was_flushed_was_not_saved_by_a_follower() -> None:
    story = quiet()
    copied(story)
    story.tell("flushed", "runner", partition=place(TARGET)[0], offset=place(TARGET)[1] + 1)
    assert shown(story) == {FLUSHED}


@pytest.mark.parametrize("outcome", ["aborted", "fenced"])
def test_an_aborted_transaction_of_the_target_is_a_sign(outcome: str) -> None:
    """Also where no copy was ever stored, the outcome the program was told shows the abort."""
    story = quiet()
    story.sent(TARGET, "producer-1.8.1", "1/8")
    story.unknown(TARGET, "producer-1.8.1")
    story.transaction("producer-1.8", outcome)
    assert ABORTED in shown(story)


def test_a_restarted_producer_that_goes_on_past_the_target_is_a_sign() -> None:
    """The source's cursor counts like a position in a log; the first start of a program is no
    restart.
    """
    story = quiet()
    resumed(story, "source", None, 4)
    assert shown(story) == frozenset()
    resumed(story, "source", None, 4)
    assert shown(story) == {RESUMED_PAST}


@pytest.mark.parametrize("hop", ["sink", "aside", "cursor"])
def test_a_copy_in_another_log_is_not_what_a_reader_has_passed(hop: str) -> None:
    """A position is one in the log that is read: a result that stands below it in the sink was
    passed by nobody.
    """
    story = quiet()
    partition, offset = place(TARGET)
    for moved in (
        row for row in story.events if row["event"] == "stored" and row["record"] == TARGET
    ):
        moved["offset"] = offset + 100
    story.stored(TARGET, partition, 0, hop=hop, topic=RESULTS)
    resumed(story, "group", partition, 0, 50)
    assert RESUMED_PAST not in shown(story)
    resumed(story, "group", partition, offset + 101)
    assert RESUMED_PAST in shown(story)


def test_an_unknown_record_shows_no_sign() -> None:
    assert shown(quiet(), "k9-99") == frozenset()


def test_results_of_a_processor_are_no_second_request() -> None:
    """A record that travels two logs was not sent again: the second hop has another topic."""
    story = quiet()
    without(story, lambda row: about(row, TARGET, "acked"))
    story.log(0, 99, hop="sink", topic=RESULTS)
    story.sent(TARGET, "processor-1.1.1", "4/4")["topic"] = RESULTS
    assert NOT_RESENT in shown(story)
