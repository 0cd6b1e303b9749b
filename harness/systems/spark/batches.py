"""Find which records shared a micro-batch with the target, from the engine's offset log.

Batches are formed while the pipeline runs, so these sets are read from the history. The other
selections of a plan are known before the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.prediction import Select
from harness.model.states import Hop

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
    ranges = _ranges_with(history, at) if at else {}
    if not ranges:
        return {}
    held = sorted(place for place in places if place[0] in ranges and place[1] in ranges[place[0]])
    through = [place for place in places if place[0] in ranges and place[1] < ranges[place[0]].stop]
    return {
        Select.THROUGH_BATCH: frozenset(places[place] for place in through),
        Select.BATCH: frozenset(places[place] for place in held),
        Select.BATCH_BEFORE_TARGET: frozenset(places[place] for place in held if at and place < at),
        Select.BATCH_FROM_TARGET: frozenset(places[place] for place in held if at and place >= at),
    }


def _in_sink(copy: kinds.Stored | kinds.Removed) -> bool:
    return isinstance(copy, kinds.Stored) and copy.hop == Hop.SINK


def _ranges_with(history: History, at: tuple[int, int]) -> dict[int, range]:
    """Return the offsets, by partition, of the first batch that contains a place (partition,
    offset).
    """
    events = list(history.of(kinds.Batch))
    first = next(
        (e for e in events if e.partition == at[0] and e.offset <= at[1] < e.position),
        None,
    )
    if first is None:
        return {}
    same = [e for e in events if (e.by, e.batch) == (first.by, first.batch)]
    return {e.partition: range(e.offset, e.position) for e in same}
