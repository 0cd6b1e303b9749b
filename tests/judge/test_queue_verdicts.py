"""Verdicts about queues: what still waits there, what was absorbed there, and nothing of logs where
there are none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.judge.signs import DELIVERED_AGAIN
from harness.judge.verdict import Kind
from harness.model.prediction import Permitted
from harness.model.scenario import Evidence, Role
from harness.model.semantics import Semantic
from harness.systems.kafka.signs import FLUSHED
from tests.judge.queue_runs import deliver, judged, place, queue_run, stays
from tests.judge.queues import QUEUE
from tests.judge.runs import RECORDS, TARGET, about, first, without

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.judge.queues import QueueStory

LAST = RECORDS[-1]
ANYTHING: dict[str, Any] = {"sign": None, "lost": Permitted(), "duplicated": Permitted()}


def test_a_broker_that_was_asked_too_early_has_said_nothing() -> None:
    """What waits then may be gone when all is at rest, and the reverse."""
    story = queue_run()
    first(story, "counted")["t"] = first(story, "drain")["t"] - 5
    assert (
        judged(story).verdict.reason
        == "an authority was asked before the drain had ended (counted)"
    )


def lose(story: QueueStory) -> None:
    """Let the last record be without a result."""
    without(story, lambda row: about(row, LAST, "recorded"))


def test_a_right_run_of_a_queue_is_kept() -> None:
    found = judged(queue_run())
    assert (found.verdict.kind, found.verdict.reason) == (
        Kind.KEPT,
        f"6 of 6 recorded; {TARGET} was protected (taken-again)",
    )
    assert found.account.counts["stored"] == len(RECORDS)


@pytest.mark.parametrize("waiting", ["ready", "in-flight", "scheduled", "open", "prepared"])
@pytest.mark.parametrize("record", [TARGET, None])
def test_what_waits_after_a_drain_is_a_duplicate_to_come(record: str | None, waiting: str) -> None:
    """Whatever it is, and though its record is recorded: nobody has awaited it."""
    story = queue_run()
    stays(story, record, waiting, foreign=record is None)
    found = judged(story).verdict
    what = f"a copy of {record}" if record else "a message"
    assert found.kind is Kind.VOID
    assert found.reason == f"the drain completed, but {what} at {QUEUE}:13 waits: {waiting}"


def test_dead_letters_may_stay() -> None:
    story = queue_run()
    stays(story, TARGET, "ready", "dlq", hop="aside")
    found = judged(story).verdict
    assert found.kind is Kind.KEPT
    assert f"{TARGET} recorded, and a copy of it set aside" in found.reason


@pytest.mark.parametrize("semantic", Semantic)
def test_what_is_only_set_aside_is_lost_unless_it_is_part_of_the_pipeline(
    semantic: Semantic,
) -> None:
    """By the plan, and where loss is forbidden; it is told in any case."""
    story = queue_run()
    lose(story)
    stays(story, LAST, "ready", "dlq", hop="aside")
    found = judged(story, semantic=semantic, **ANYTHING).verdict
    part = judged(story, semantic=semantic, dead_letters=True, **ANYTHING).verdict
    forbidden = semantic is not Semantic.AT_MOST_ONCE
    assert (found.kind, part.kind) == (Kind.BROKEN if forbidden else Kind.KEPT, Kind.KEPT)
    assert all(
        f"1 set aside ({LAST}: only dead letters are left)" in each.reason for each in (found, part)
    )


def test_a_queue_has_no_log_that_goes_on() -> None:
    story = queue_run()
    lose(story)
    assert "k0-6 delivered, not recorded" in judged(story).verdict.reason
    story = queue_run()
    story.result(LAST, 9, place(LAST))
    assert "1 delivered twice" in judged(story, semantic=Semantic.EXACTLY_ONCE).verdict.reason


def moved(story: QueueStory) -> None:
    """The target was put into the queue for later, and worked on there."""
    first(story, "removed", record=TARGET).update(place="later:1")
    story.copy(TARGET, "later:1", attempt="producer-2.3.1", queue="later")
    story.moved(TARGET, place(TARGET), "later:1")
    first(story, "recorded", record=TARGET).update(place="later:1")


def taken_for_a_duplicate(story: QueueStory) -> None:
    """The broker has done away with a second copy of the target."""
    story.sent(TARGET, "producer-2.3.1", "2/9")["topic"] = QUEUE
    story.copy(TARGET, "q:9", attempt="producer-2.3.1", queue=QUEUE)
    story.removed(TARGET, "q:9", "duplicate")


def recorded_once(story: QueueStory) -> None:
    """A second copy of the target was worked on, and there is one result."""
    story.sent(TARGET, "producer-2.90.1", "2/9")["topic"] = QUEUE
    story.copy(TARGET, "q:9", attempt="producer-2.90.1", queue=QUEUE)
    story.removed(TARGET, "q:9", "ack")


@pytest.mark.parametrize(
    ("happens", "said"),
    [
        (moved, None),
        (taken_for_a_duplicate, "absorbed by the broker, which took the second for a duplicate"),
        (recorded_once, "stored twice and recorded once"),
    ],
)
def test_who_has_absorbed_what_was_doubled_is_said_of_queues(
    happens: Callable[[QueueStory], None], said: str | None
) -> None:
    story = queue_run()
    happens(story)
    found = judged(story, **ANYTHING).verdict
    assert found.kind is Kind.KEPT, found.reason
    assert [
        word for word in ("absorbed by the broker", "stored twice") if word in found.reason
    ] == (
        []
        if said is None
        else [word for word in ("absorbed by the broker", "stored twice") if word in said]
    )
    assert said is None or said in found.reason


def test_a_power_loss_of_a_queue_is_judged() -> None:
    story = queue_run()
    lost = Evidence("rule", killed=(Role.PRODUCER,), forgotten=True)
    story.tell("fault", "runner", phase="forgot", fault="kill")["t"] = (
        first(story, "fault", phase="healed")["t"] - 1
    )
    assert judged(story, evidence=lost).verdict.kind is Kind.KEPT


def test_a_power_loss_of_a_queue_flushes_no_offset() -> None:
    """A copy without an offset is not below one, whatever was written of the flush."""
    story = queue_run()
    story.tell("flushed", "runner", partition=0, offset=1)
    assert FLUSHED not in judged(story).signs.of(TARGET)


def test_a_second_delivery_is_a_sign() -> None:
    story = queue_run()
    deliver(story, TARGET, again=True)
    for row in story.events[-2:]:
        row["t"] = first(story, "drain")["t"] - 5
    assert judged(story, sign=DELIVERED_AGAIN).verdict.kind is Kind.KEPT
