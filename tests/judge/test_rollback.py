"""The state of a query before a crash, after the rollback and at the end: told from the batches of
its drivers.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from harness.model import events as kinds
from harness.model.history import read_history
from harness.systems.spark.rollback import Moment, Rollback, rollback_of
from tests.events import a_history

if TYPE_CHECKING:
    from harness.model.history import Event

GOLDEN = Path(__file__).parent / "golden" / "kept-by-rolling-back" / "history"
"""A real run: the batch of k1-14 and k2-16, the eighth, was written and not committed."""


@pytest.fixture(scope="module")
def events() -> list[Event]:
    """Return the events of the golden history."""
    return list(read_history(GOLDEN).events)


def found_in(events: list[Event]) -> Rollback:
    """Return what the events tell; they must tell something."""
    found = rollback_of(replace(read_history(GOLDEN), events=tuple(events)))
    assert found is not None
    return found


def test_state_and_offsets_go_back_together(events: list[Event]) -> None:
    """What the batch in hand had added is in the state before the crash, and not after the
    rollback.
    """
    before, after, end = found_in(events).snapshots
    assert [before.moment, after.moment, end.moment] == list(Moment)
    undone = {
        record
        for key, held in before.state.items()
        for record in held
        if record not in after.state[key]
    }
    assert undone == {"k1-14", "k2-16"}
    assert (
        sum(before.offsets.values()) - sum(after.offsets.values()) == 4
    )  # two records, and the marker behind each
    in_the_end = [record for held in end.state.values() for record in held]
    assert len(in_the_end) == len(set(in_the_end))


def test_a_state_that_did_not_go_back_is_torn(events: list[Event]) -> None:
    """The new driver was given the batch's records back with the state, and takes them in a second
    time.
    """
    spoilt = [
        msgspec.structs.replace(event, records=(*event.records, "k1-14"))
        if isinstance(event, kinds.State)
        and (event.by, event.batch, event.key) == ("driver-2", 7, "k1")
        else event
        for event in events
    ]
    found = found_in(spoilt)
    assert found.torn == ("k1",)
    assert found.snapshots[1].state["k1"] == ("k1-5", "k1-10", "k1-14")


def test_what_is_no_record_goes_back_with_the_rest(events: list[Event]) -> None:
    """A state may hold a copy that another program has written, which has no name."""
    foreign = [
        msgspec.structs.replace(event, records=(None, *event.records))
        if isinstance(event, kinds.State) and event.key == "k1"
        else event
        for event in events
    ]
    found = found_in(foreign)
    assert found.torn == ()
    assert None in found.snapshots[1].state["k1"]


def test_without_a_checkpoint_nothing_is_left(events: list[Event]) -> None:
    """A driver that begins with batch 0 was given nothing back, whatever the one before it had."""
    again = [
        msgspec.structs.replace(event, batch=event.batch - 7)
        if isinstance(event, (kinds.State, kinds.Batch)) and event.by.startswith("driver-2")
        else event
        for event in events
    ]
    again = [
        msgspec.structs.replace(event, records=event.news)
        if isinstance(event, kinds.State) and event.by == "driver-2"
        else event
        for event in again
    ]
    found = found_in(again)
    assert (found.snapshots[1].batch, found.snapshots[1].state) == (-1, {})
    assert found.torn == ()


@pytest.mark.parametrize("without", ["driver-2", "driver-2-jvm"])
def test_nothing_is_told_of_one_driver(events: list[Event], without: str) -> None:
    """Where no other driver took over, or its log of batches is gone, nothing is said."""
    rest = tuple(event for event in events if event.by != without)
    assert rollback_of(replace(read_history(GOLDEN), events=rest)) is None


def test_nothing_is_told_where_there_is_no_state() -> None:
    assert rollback_of(a_history((), ())) is None
