"""Load before and after a fault: what counts for programs of ours, what for one that batches as it
likes, and what for none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from harness.judge.load import load_of
from harness.judge.verdict import Kind, Verdict
from harness.model import events as kinds
from harness.model.prediction import Permitted
from tests.events import typed
from tests.judge.runs import RECORDS, TARGET, first, history_of, judged, place, run, without

if TYPE_CHECKING:
    from tests.judge.histories import Row, Story

FREE: dict[str, Any] = {"sign": None, "lost": Permitted(), "duplicated": Permitted()}
OURS = {"taken", "delivered"}
MOVES = {"sent", "unsent", "fetched"}
OTHERS = [record for record in RECORDS if record != TARGET]


def foreign() -> Story:
    """Tell the run of a program that writes nothing down: nobody but the wire saw its
    records move.
    """
    story = run()
    without(story, lambda row: row["event"] in OURS)
    return story


def struck(story: Story) -> int:
    """Return when the fault struck."""
    return int(first(story, "rule", phase="hit")["t"])


def everything_at_once(story: Story) -> Row:
    """Let the struck request be the first one, with all records in it. Return its hit."""
    at = struck(story)
    without(story, lambda row: row["event"] in MOVES and row["t"] < at)
    hit = first(story, "rule", phase="hit")
    hit["records"] = sorted(RECORDS)
    return hit


def everything_given_before(story: Story) -> None:
    """Let nothing be sent or given once the fault has struck."""
    at = struck(story)
    for row in story.events:
        if row["event"] in {"sent", "fetched"} and row["t"] > at:
            row["t"] = at - 5
    without(story, lambda row: row["event"] in OURS | {"unsent"} and row["t"] > at)


def saves(story: Story, record: str, after: int, *, reached: bool = True) -> Row:
    """Let a reader save its position behind a record, so much after the fault has struck."""
    partition, offset = place(record)
    row = story.tell(
        "committed",
        "wire",
        topic="t",
        partition=partition,
        offset=offset + 1,
        group="g",
        request="7:1",
        reached=reached,
    )
    row["t"] = struck(story) + after
    return row


def verdict_of(story: Story) -> Verdict:
    """Judge it as a pipeline of which nothing is predicted."""
    return judged(story, **FREE).verdict


def void(story: Story, when: str) -> bool:
    """Whether the run proves nothing, for there was no load at this side of the fault."""
    found = verdict_of(story)
    return found.kind is Kind.VOID and found.reason == f"there was no load {when} the fault"


def test_records_beside_the_target_in_the_first_request_are_load() -> None:
    """Of a program that decides alone how it batches. The verdict says what its load was."""
    story = foreign()
    everything_at_once(story)
    found = verdict_of(story)
    assert found.kind is Kind.KEPT, found
    told = f"nothing was sent before the fault: the load is 5 records in one request with {TARGET}"
    assert told in found.reason


def test_of_what_was_sent_before_nothing_is_told() -> None:
    found = verdict_of(foreign())
    assert found.kind is Kind.KEPT
    assert "the load is" not in found.reason


@pytest.mark.parametrize("kind", sorted(OURS))
def test_programs_of_ours_send_in_units_that_are_set(kind: str) -> None:
    """So theirs must have moved something before the fault."""
    story = foreign()
    everything_at_once(story)
    row = story.tell(kind, "producer-1", record=OTHERS[-1], partition=0, epoch=0, offset=9)
    row["t"] = struck(story) + 5
    assert void(story, "before")


@pytest.mark.parametrize("records", [[TARGET], None])
def test_a_request_with_the_target_alone_is_no_load(records: list[str] | None) -> None:
    story = foreign()
    everything_at_once(story)["records"] = records
    assert void(story, "before")


def test_a_request_that_was_only_held_back_is_no_load() -> None:
    story = foreign()
    hit = everything_at_once(story)
    hit["records"] = [TARGET]
    wave = story.tell(
        "rule", "wire", rule="last-wave", phase="hit", record=TARGET, records=sorted(RECORDS)
    )
    wave["t"] = hit["t"] + 1
    assert void(story, "before")


def test_records_beside_another_than_the_target_are_no_load() -> None:
    story = foreign()
    everything_at_once(story)["records"] = OTHERS
    found = verdict_of(story)
    assert (found.kind, found.reason) == (
        Kind.VOID,
        f"the fault fired at another record than its target {TARGET}",
    )


def test_a_fault_that_did_not_fire_is_void_whatever_was_sent() -> None:
    story = foreign()
    everything_at_once(story)
    without(story, lambda row: row["event"] in {"fault", "rule"})
    assert re.search("the fault did not fire", verdict_of(story).reason)


def test_positions_that_are_first_saved_after_the_fault_are_load() -> None:
    """A client that was given everything before works on what it has."""
    story = foreign()
    everything_given_before(story)
    assert void(story, "after")
    saves(story, OTHERS[-1], 5)
    assert verdict_of(story).kind is Kind.KEPT


def test_positions_that_prove_no_work_are_no_load() -> None:
    """One that was saved before, or never arrived; one behind the target alone; one of a program
    that has a ledger.
    """
    story = foreign()
    everything_given_before(story)
    saves(story, OTHERS[-1], -2)
    saves(story, OTHERS[-1], 5)
    assert void(story, "after"), "it had been saved before"

    story = foreign()
    everything_given_before(story)
    saves(story, OTHERS[-1], 5, reached=False)
    assert not load_of(history_of(story), TARGET, struck(story), ()).after, (
        "the broker never got it"
    )

    story = foreign()
    everything_given_before(story)
    before = [
        record
        for record in RECORDS
        if place(record)[0] == place(TARGET)[0] and place(record)[1] < place(TARGET)[1]
    ]
    saves(story, before[-1], -2)
    saves(story, TARGET, 5)
    assert void(story, "after"), "nothing is saved but the target"

    story = run()
    everything_given_before(story)
    saves(story, OTHERS[-1], 5)
    assert void(story, "after"), "ours say themselves what they were given"


@pytest.mark.parametrize(
    ("record", "told", "load"),
    [
        (OTHERS[-1], {"how": "ack", "outcome": None, "reached": True}, True),
        (TARGET, {"how": "ack", "outcome": None, "reached": True}, False),
        (OTHERS[-1], {"how": "nack", "outcome": None, "reached": True}, False),
        (OTHERS[-1], {"how": "ack", "outcome": "taken", "reached": True}, False),
        (OTHERS[-1], {"how": "ack", "outcome": None, "reached": False}, False),
    ],
)
def test_acknowledgements_of_a_queue_are_load_likewise(
    record: str, told: dict[str, object], load: bool
) -> None:
    """The request, that arrived, of another record than the target."""
    story = foreign()
    everything_given_before(story)
    story.tell("acknowledged", "wire", record=record, request="7:2", transactional_id=None, **told)[
        "t"
    ] = struck(story) + 5
    assert (verdict_of(story).kind is Kind.KEPT) is load


def test_a_reader_of_somebody_elses_whose_source_is_ours_is_judged_by_what_it_finishes() -> None:
    """That its source writes down what was taken says nothing of what its reader was given."""
    story = run()
    at = struck(story)
    without(
        story,
        lambda row: row["event"] == "delivered" or (row["event"] in OURS | MOVES and row["t"] > at),
    )
    assert void(story, "after")
    saves(story, OTHERS[-1], 5)
    assert load_of(history_of(story), TARGET, at, ()).after


def test_what_is_acknowledged_again_is_no_load() -> None:
    """It was done before the fault."""
    story = foreign()
    everything_given_before(story)
    for after in (-2, 5):
        row = story.tell(
            "acknowledged",
            "wire",
            record=OTHERS[-1],
            request="7:2",
            how="ack",
            outcome=None,
            reached=True,
        )
        row["t"] = struck(story) + after
    assert not load_of(history_of(story), TARGET, struck(story), ()).after


def hit(**more: Any) -> kinds.Rule:
    """Return the line of a rule that was hit."""
    rule = typed({"event": kinds.RULE, "phase": "hit", **more})
    assert isinstance(rule, kinds.Rule)
    return rule


def test_only_a_request_that_held_the_target_has_something_beside_it() -> None:
    story = foreign()
    everything_at_once(story)
    hits = [hit(records=OTHERS), hit(records=[TARGET]), hit()]
    assert not load_of(history_of(story), TARGET, struck(story), hits).before
    assert load_of(history_of(story), TARGET, struck(story), [hit(records=RECORDS)]).beside == set(
        OTHERS
    )


@pytest.mark.parametrize("kind", ["sent", "taken", "delivered"])
def test_what_only_comes_again_is_no_load(kind: str) -> None:
    """A program that is started again does what it did before; load is a record that makes the move
    for the first time.
    """
    story = run()
    at = struck(story)
    without(story, lambda row: row["event"] in OURS | MOVES and row["t"] > at)
    before = [
        row
        for row in story.events
        if row["event"] == kind and row["t"] < at and row["record"] != TARGET
    ]
    again = dict(before[0]) | {"t": at + 5, "by": "again"}
    story.events.append(again)
    assert not load_of(history_of(story), TARGET, at, ()).after
    again["record"] = next(
        record for record in OTHERS if record not in {row["record"] for row in before}
    )
    assert load_of(history_of(story), TARGET, at, ()).after


def test_a_batch_that_is_worked_on_again_is_no_load() -> None:
    story = run()
    at = struck(story)
    without(story, lambda row: row["event"] in OURS | MOVES and row["t"] > at)
    for number, after in ((1, -5), (1, 5)):
        story.tell("batch", "driver-1", batch=number, phase="before-offset-log")["t"] = at + after
    assert not load_of(history_of(story), TARGET, at, ()).after
    story.tell("batch", "driver-1", batch=2, phase="before-offset-log")["t"] = at + 6
    assert load_of(history_of(story), TARGET, at, ()).after


def exchanged(story: Story, position: int) -> None:
    """Let the target have this position in the source."""
    offered = [row for row in story.events if row["event"] == "offered"]
    target = next(row for row in offered if row["record"] == TARGET)
    other = next(row for row in offered if row["position"] == position)
    target["position"], other["position"] = position, target["position"]


def test_no_load_comes_before_the_first_record() -> None:
    """A fault at it needs none; it needs load after it, as any other."""
    story = foreign()
    at = struck(story)
    without(story, lambda row: row["event"] in MOVES and row["t"] < at)
    assert void(story, "before")
    exchanged(story, 1)
    assert verdict_of(story).kind is Kind.KEPT
    without(story, lambda row: row["event"] in MOVES and row.get("record") != TARGET)
    assert void(story, "after")


def test_no_load_comes_behind_the_last_record() -> None:
    """A fault at it needs none; it needs load before it, as any other."""
    story = foreign()
    everything_given_before(story)
    assert void(story, "after")
    exchanged(story, len(RECORDS))
    assert verdict_of(story).kind is Kind.KEPT
