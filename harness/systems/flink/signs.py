"""Signs and sets of records that only a history of a Flink job tells: by its checkpoints."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.model.events import BatchPhase, FaultPhase
from harness.model.prediction import Select
from harness.model.sign import Sign
from harness.model.states import Hop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.model.history import History

INPUTS: Final = 2
"""The number of inputs of a job with an input that stands still."""
ROLLED_BACK: Final = Sign(
    "rolled-back",
    "the job was restored from a checkpoint before this record, and was given the record again",
)
SINCE_CHECKPOINT: Final = Select("since-checkpoint")
"""The target, and the records before it that came after the last complete checkpoint."""
COMMITTED_SINCE: Final = Select("committed-since")
"""The records between the checkpoint with which the job was submitted again and the last complete
checkpoint.
"""
AND_BESIDE: Final = Select("since-checkpoint-and-beside")
"""The records of ``since-checkpoint``, and those after the target on inputs that did not stand
still.
"""


def flink_signs(history: History) -> dict[Sign, set[str]]:
    """Return, for each sign, the records that show it."""
    given: dict[str, set[str]] = defaultdict(set)
    restored = {event.by for event, _ in restorations(history)}
    for event in history.of(kinds.Delivered) if restored else ():
        if event.record is not None:
            given[event.record].add(event.by)
    return {ROLLED_BACK: {record for record, by in given.items() if len(by) > 1 and by & restored}}


def restorations(history: History) -> list[tuple[kinds.Resumed, int]]:
    """Return the lines of a job that went on from a checkpoint, and the checkpoint's number."""
    resumed = (event for event in history.of(kinds.Resumed) if event.where == "job")
    return [(event, number) for event in resumed if (number := event.batch or 0) > 0]


def checkpoint_selections(history: History, target: str) -> dict[Select, frozenset[str]]:
    """Return the selections that depend on the checkpoints around the target; nothing if the job
    took no snapshot before it.
    """
    given = [event for event in history.of(kinds.Delivered) if event.record == target]
    snapshots = [
        e
        for e in history.of(kinds.Batch)
        if e.phase == BatchPhase.SNAPSHOT and given and e.t < given[0].t
    ]
    if not snapshots:
        return {}
    last = snapshots[-1]
    held = {e.partition: e.position for e in snapshots if (e.by, e.batch) == (last.by, last.batch)}
    offered = {event.record: event.position for event in history.of(kinds.Offered)}
    since = frozenset(
        record
        for record, (partition, offset) in _in_source(history)
        if offset >= held.get(partition, 0)
        and offered.get(record, 0) <= offered.get(target, -1)
        and record in offered
    )
    beside = records_behind_standstill(history)
    return (
        {SINCE_CHECKPOINT: since}
        | ({AND_BESIDE: since | beside} if beside else {})
        | _committed_since(history)
    )


def _committed_since(history: History) -> dict[Select, frozenset[str]]:
    restored = [number for _, number in restorations(history)]
    complete = [
        e.number
        for e in history.of(kinds.Fault)
        if e.phase == FaultPhase.CHECKPOINT and e.status == "COMPLETED" and e.number is not None
    ]
    if not restored or not complete:
        return {}
    begins, ends = (_positions(history, number) for number in (restored[0], max(complete)))
    return {
        COMMITTED_SINCE: frozenset(
            record
            for record, (partition, offset) in _in_source(history)
            if begins.get(partition, 0) <= offset < ends.get(partition, 0)
        )
    }


def _positions(history: History, number: int) -> dict[int, int]:
    """Return the positions, by partition, of a checkpoint in the first attempt that took it."""
    found = [
        e for e in history.of(kinds.Batch) if e.phase == BatchPhase.SNAPSHOT and e.batch == number
    ]
    return {e.partition: e.position for e in found if e.by == found[0].by}


def records_behind_standstill(history: History) -> frozenset[str]:
    """Return the records of the other input that come after the record at which one of two inputs
    stood still.
    """
    stand = next((event for event in history.of(kinds.Failpoint) if event.by == "source"), None)
    if stand is None or stand.partition is None or stand.record is None:
        return frozenset()
    offered = {event.record: event.position for event in history.of(kinds.Offered)}
    return frozenset(
        record
        for record, (partition, _) in _in_source(history)
        if (partition - stand.partition) % INPUTS
        and offered.get(record, 0) > offered.get(stand.record, 0)
    )


def _in_source(history: History) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the record of each visible copy in the source, and its partition and offset."""
    for copy in history.of(kinds.Stored):
        if copy.hop == Hop.TOPIC and copy.visible and copy.at and copy.record is not None:
            yield copy.record, copy.at
