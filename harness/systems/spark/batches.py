"""Find which records shared a micro-batch with the target, from the engine's offset log.

Batches are formed while the pipeline runs, so these sets are read from the history. The other
selections of a plan are known before the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.prediction import Select
from harness.model.states import Hop
from harness.systems.spark.signs import BEYOND, SKIPPED

if TYPE_CHECKING:
    from harness.model.history import History


def batch_selections(history: History, target: str) -> dict[Select, frozenset[str]]:
    """Return the selections that depend on the first batch with ``target``; nothing if no batch had
    it.

    In a batch, records are processed in the order of partition and offset.
    """
    places = {
        event.at: event.record
        for event in history.of(kinds.Stored, kinds.Removed)
        if event.at is not None and event.visible and event.record and not _in_sink(event)
    }
    at = next((place for place, record in places.items() if record == target), None)
    first = _first_with(history, at) if at else None
    if first is None:
        return {}
    batches = list(history.of(kinds.Batch))
    same = [batch for batch in batches if (batch.by, batch.batch) == (first.by, first.batch)]
    known = [batch for batch in batches if batch.by != first.by and batch.batch <= first.batch]
    ranges = {batch.partition: range(batch.offset, batch.position) for batch in same}
    held = sorted(place for place in places if place[0] in ranges and place[1] in ranges[place[0]])
    through = [place for place in places if place[0] in ranges and place[1] < ranges[place[0]].stop]
    again = {
        place
        for place in places
        for batch in known
        if place[0] == batch.partition and batch.offset <= place[1] < batch.position
    }
    beyond = set(places) - set(through)
    return {
        BEYOND: frozenset(places[place] for place in beyond),
        SKIPPED: frozenset(places[place] for place in again),
        Select.THROUGH_BATCH: frozenset(places[place] for place in through),
        Select.BATCH: frozenset(places[place] for place in held),
        Select.BATCH_BEFORE_TARGET: frozenset(places[place] for place in held if at and place < at),
        Select.BATCH_FROM_TARGET: frozenset(places[place] for place in held if at and place >= at),
    }


def _in_sink(copy: kinds.Stored | kinds.Removed) -> bool:
    return isinstance(copy, kinds.Stored) and copy.hop == Hop.SINK


def _first_with(history: History, at: tuple[int, int]) -> kinds.Batch | None:
    """Return the first line of a batch that contains a place (partition, offset)."""
    return next(
        (
            event
            for event in history.of(kinds.Batch)
            if event.partition == at[0] and event.offset <= at[1] < event.position
        ),
        None,
    )
