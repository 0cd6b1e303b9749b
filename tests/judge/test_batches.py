"""The batch that held the target: which records it names, and what a prediction makes of them."""

from __future__ import annotations

import pytest

from harness.model.prediction import Select
from harness.systems.spark.batches import batch_selections
from harness.systems.spark.signs import BEYOND, SKIPPED
from tests.events import a_history
from tests.judge.histories import Story

PLACES = {"a-1": (0, 0), "b-2": (1, 0), "a-3": (0, 2), "b-4": (1, 2), "a-5": (0, 4), "b-6": (1, 4)}


def story() -> Story:
    """Six records on two partitions with a marker after each, in two batches; the second one was
    run twice.
    """
    told = Story()
    for record, place in PLACES.items():
        told.offered(record, record[0], int(record[2:]))
        told.stored(record, *place)
    batch(told, "driver-1-jvm", 0, {0: (0, 2), 1: (0, 2)})
    batch(told, "driver-1-jvm", 1, {0: (2, 6), 1: (2, 4)})
    batch(told, "driver-2-jvm", 1, {0: (2, 6), 1: (2, 4)})
    batch(told, "driver-2-jvm", 2, {0: (6, 6), 1: (4, 6)})
    return told


def batch(told: Story, by: str, number: int, ranges: dict[int, tuple[int, int]]) -> None:
    """Tell one batch, once before and once after its entry in the offset log."""
    for phase in ("before-offset-log", "after-offset-log"):
        for partition, (offset, position) in ranges.items():
            told.tell(
                "batch",
                by,
                phase=phase,
                batch=number,
                partition=partition,
                offset=offset,
                position=position,
            )


def selected(told: Story, target: str) -> dict[Select, frozenset[str]]:
    """Return the selections of a history."""
    return batch_selections(a_history(tuple(told.events), ()), target)


@pytest.mark.parametrize(
    ("target", "before", "rest"),
    [
        ("a-1", set(), {"a-1", "b-2"}),
        ("b-2", {"a-1"}, {"b-2"}),
        ("a-3", set(), {"a-3", "a-5", "b-4"}),
        ("a-5", {"a-3"}, {"a-5", "b-4"}),
        ("b-4", {"a-3", "a-5"}, {"b-4"}),
        ("b-6", set(), {"b-6"}),
    ],
)
def test_a_batch_is_what_the_offset_log_says(target: str, before: set[str], rest: set[str]) -> None:
    """Records are in a batch by partition and offset, and worked on in that order."""
    found = selected(story(), target)
    assert found[Select.BATCH] == before | rest
    assert found[Select.BATCH_BEFORE_TARGET] == before
    last = max(int(record[2:]) for record in before | rest)
    assert found[Select.THROUGH_BATCH] == {record for record in PLACES if int(record[2:]) <= last}
    assert found[Select.BATCH_FROM_TARGET] == rest
    assert found[BEYOND] == {record for record in PLACES if int(record[2:]) > last}


def test_a_new_checkpoint_repeats_the_numbers_of_batches() -> None:
    """What a later driver planned under a number up to that of the target's batch; of the earlier
    driver's batches nothing, and nothing under a higher number.
    """
    told = Story()
    for record, place in PLACES.items():
        told.offered(record, record[0], int(record[2:]))
        told.stored(record, *place)
    batch(told, "driver-1-jvm", 0, {0: (0, 2), 1: (0, 2)})
    batch(told, "driver-2-jvm", 0, {0: (2, 4), 1: (2, 4)})
    batch(told, "driver-2-jvm", 1, {0: (4, 6), 1: (4, 6)})
    assert selected(told, "a-1")[SKIPPED] == {"a-3", "b-4"}
    assert selected(told, "a-3")[SKIPPED] == {"a-1", "b-2"}, "by the number, not by the time"
    assert selected(story(), "a-1")[SKIPPED] == set()


def test_no_batch_selects_nothing() -> None:
    """A target that no batch held, or that is in no log, selects nothing: a prediction about it
    then contradicts.
    """
    told = story()
    told.events = [event for event in told.events if event["event"] != "batch"]
    assert selected(told, "a-3") == {}
    assert selected(story(), "z-9") == {}
