"""What the judge is told of a job's history: what came since the last checkpoint, who was given
back what, what became of it.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from harness.model import events as kinds
from harness.systems.flink.proofs import Aligned, CheckpointRefused, CheckpointWas, ReadersWaited
from harness.systems.flink.rollback import rollback_detail
from harness.systems.flink.signs import (
    AND_BESIDE,
    COMMITTED_SINCE,
    ROLLED_BACK,
    SINCE_CHECKPOINT,
    checkpoint_selections,
    flink_signs,
)
from tests.events import a_history
from tests.systems.flink.histories import SINK, HistoryBuilder, rolled_back, standing

if TYPE_CHECKING:
    from harness.judge.proof import ProofContext


def course_of(told: HistoryBuilder) -> ProofContext:
    """Return what a proof may ask."""
    history = told.history()
    killed = list(history.of(kinds.Node))
    return cast("ProofContext", SimpleNamespace(history=history, killed=killed))


def moments(told: HistoryBuilder) -> list[dict[str, Any]]:
    """Return the three moments; there must be some."""
    found = rollback_detail(told.history())
    assert found is not None
    return list(found["snapshots"])


def test_state_offsets_and_transactions_go_back_together() -> None:
    """What came since the checkpoint is in the state before the crash, and not after
    the rollback.
    """
    before, after, end = moments(rolled_back())
    assert [before["moment"], after["moment"], end["moment"]] == [
        "before the crash",
        "after the rollback",
        "at the end",
    ]
    assert (before["state"], after["state"], end["state"]) == (
        {"a": 2, "b": 2},
        {"a": 1, "b": 1},
        {"a": 3, "b": 2},
    )
    assert (before["offsets"], after["offsets"], end["offsets"]) == ({"0": 4}, {"0": 2}, {"0": 5})
    assert (
        before["said"] == "checkpoint 2, and the records since; transactions: 1 committed, 1 open"
    )
    assert after["said"] == "checkpoint 2; transactions: 1 committed, 1 aborted"


def test_a_name_that_is_used_again_is_another_transaction() -> None:
    """The restored sink aborts what it finds under its next id, and takes that for its own."""
    told = rolled_back()
    told.tell("sent", "wire", transactional_id="c-job-0-3", topic=SINK, record="a-3")
    told.tell("end_txn", "wire", transactional_id="c-job-0-3", commit=True, reached=True)
    assert moments(told)[2]["said"].endswith("transactions: 2 committed, 1 aborted")


@pytest.mark.parametrize(
    "at_rest",
    [{"kind": "fault", "phase": "readers", "unseen": 0}, {"kind": "drain", "phase": "completed"}],
)
def test_what_nobody_ended_was_aborted_by_its_time_out(at_rest: dict[str, Any]) -> None:
    told = rolled_back()
    told.events = [event for event in told.events if event["event"] != "init_producer"]
    assert moments(told)[2]["said"].endswith("transactions: 1 committed, 1 open")
    told.tell(**at_rest)
    assert moments(told)[2]["said"].endswith("transactions: 1 committed, 1 aborted")


def test_what_was_begun_behind_the_question_is_open() -> None:
    """Readers are waited for while the job writes its next transaction."""
    told = rolled_back()
    told.events = [event for event in told.events if event["event"] != "init_producer"]
    told.tell("fault", "runner", phase="readers", unseen=3)
    told.tell("sent", "wire", transactional_id="c-other-0-1", topic=SINK, record="a-3")
    told.tell("fault", "runner", phase="readers", unseen=0)
    assert moments(told)[2]["said"].endswith("transactions: 1 committed, 1 open, 1 aborted")


def test_a_key_that_did_not_go_back_is_torn() -> None:
    told = rolled_back()
    for event in told.events:
        if event["by"] == "job-1-2" and event.get("key") == "b":
            event["records"] = ["b-2", "b-4", "b-4"]
    found = rollback_detail(told.history())
    assert found is not None
    assert found["torn"] == ["b"]


def test_nothing_is_told_of_a_job_that_was_never_restored() -> None:
    told = rolled_back()
    for event in told.events:
        if event["event"] == kinds.RESUMED:
            event["batch"] = 0
    assert rollback_detail(told.history()) is None
    assert rollback_detail(a_history(())) is None


def test_what_came_since_the_checkpoint_is_known_by_the_source_and_the_snapshot() -> None:
    history = rolled_back().history()
    assert checkpoint_selections(history, "b-4") == {SINCE_CHECKPOINT: {"a-3", "b-4"}}
    assert checkpoint_selections(history, "a-3") == {SINCE_CHECKPOINT: {"a-3"}}


def test_what_was_committed_behind_the_checkpoint_of_a_new_submission_is_known_by_both_checkpoints() -> (  # noqa: E501
    None
):
    """From where the older one had read to, up to where the last complete one had: whatever came
    later was never committed.
    """
    told = rolled_back()
    told.events = [
        event for event in told.events if event["event"] != kinds.BATCH or event["batch"] == 2
    ]
    for by, number, end in (("job-1-1", 3, 3), ("job-1-1", 4, 4), ("job-1-2", 3, 5)):
        told.snapshot(by, number, 2, end)
    told.checkpoint(3, "COMPLETED")
    told.checkpoint(4, "IN_PROGRESS")
    assert checkpoint_selections(told.history(), "b-4")[COMMITTED_SINCE] == {"a-3"}


def test_a_target_that_was_never_given_selects_nothing() -> None:
    """A prediction about it cannot be judged then, and the cell is void."""
    assert checkpoint_selections(rolled_back().history(), "c-9") == {}


def test_only_what_a_restored_attempt_was_given_again_shows_the_sign() -> None:
    """Not what came before the checkpoint, nor what came first behind it."""
    assert flink_signs(rolled_back().history()) == {ROLLED_BACK: {"a-3", "b-4"}}


@pytest.mark.parametrize(
    ("status", "trouble"),
    [
        ("IN_PROGRESS", None),
        ("COMPLETED", "checkpoint 3 must be incomplete, but the JobManager reported COMPLETED"),
    ],
)
def test_what_became_of_the_checkpoint_says_the_job_manager(
    status: str, trouble: str | None
) -> None:
    """Of the last one that was asked for before the death; one that was complete before says
    nothing.
    """
    told = HistoryBuilder()
    told.checkpoint(2, "COMPLETED")
    told.checkpoint(3, status)
    told.died()
    told.checkpoint(4, "COMPLETED")
    assert CheckpointWas("incomplete").trouble(course_of(told)) == trouble


def test_where_nobody_asked_nothing_is_proved() -> None:
    """What is said after the death is no proof."""
    told = HistoryBuilder()
    told.died()
    told.checkpoint(2, "COMPLETED")
    assert (
        CheckpointWas("completed").trouble(course_of(told))
        == "the JobManager was not asked for the status of the checkpoint"
    )


@pytest.mark.parametrize(("acknowledged", "proved"), [(2, True), (1, False)])
def test_a_refused_checkpoint_was_acknowledged_by_all(acknowledged: int, proved: bool) -> None:
    """One that failed for another reason is none that could not be stored."""
    told = HistoryBuilder()
    told.checkpoint(2, "FAILED", acknowledged)
    told.died()
    assert (CheckpointRefused().trouble(course_of(told)) is None) is proved


def test_what_came_beside_an_input_that_stands_is_the_other_ones() -> None:
    assert checkpoint_selections(standing().history(), "b-2") == {
        SINCE_CHECKPOINT: {"b-2"},
        AND_BESIDE: {"b-2", "d-4", "f-6"},
    }


@pytest.mark.parametrize(
    ("given", "waited", "trouble"),
    [
        ((), True, None),
        (("d-4",), True, "1 records after a barrier were processed instead of waiting"),
        (("d-4", "f-6"), False, None),
        (("d-4",), False, "only 1 of 2 records after a barrier were processed"),
    ],
)
def test_what_waits_behind_a_barrier_is_what_the_job_was_not_given(
    given: tuple[str, ...], waited: bool, trouble: str | None
) -> None:
    """Before it died; what the restored job was given says nothing."""
    assert Aligned(waited).trouble(course_of(standing(given=given))) == trouble


def test_an_input_with_nothing_behind_its_barrier_proves_nothing() -> None:
    told = standing()
    told.events = [event for event in told.events if event["event"] != "fetched"]
    assert (
        Aligned(waited=True).trouble(course_of(told))
        == "the other inputs had fetched no record after their barriers"
    )


@pytest.mark.parametrize(
    ("unseen", "waiting", "trouble"),
    [
        ((0,), False, None),
        ((5,), False, "readers must see everything, but they could not read 5 offsets"),
        ((5, 0), True, None),
        ((0, 0), True, "readers must wait, but they could not read 0 offsets"),
        ((5, 5), True, "readers still could not read 5 offsets at the end"),
        ((), True, "it was not checked what readers saw"),
    ],
)
def test_whether_readers_wait_is_looked_at(
    unseen: tuple[int, ...], waiting: bool, trouble: str | None
) -> None:
    """When the next job has committed; and where they do, that they do not for ever."""
    told = HistoryBuilder()
    told.died()
    for each in unseen:
        told.readers(each)
    assert ReadersWaited(waiting).trouble(course_of(told)) == trouble
