"""Show a rollback to a checkpoint: the query's state and offsets before the crash, after the
rollback, and at the end.

The query reports the state of a key after each batch that touched it. What a new driver restored
shows in its first batch: the state that it reports, without what that batch added.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from harness.model import events as kinds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.model.history import History

State = dict[str, tuple[str | None, ...]]
"""Key → the records in the key's state."""


class Moment(StrEnum):
    """The moments at which the state is shown."""

    BEFORE = "before the crash"
    AFTER = "after the rollback"
    END = "at the end"


@dataclass(frozen=True)
class Snapshot:
    """The state and offsets at one moment. ``batch``: the last batch in the state; -1 if there is
    none.
    """

    moment: Moment
    batch: int
    offsets: dict[int, int]
    state: State

    def row(self) -> dict[str, object]:
        """Return the snapshot as plain data, with the number of records in each key's state."""
        return {
            "moment": str(self.moment),
            "batch": self.batch,
            "offsets": {
                str(partition): offset for partition, offset in sorted(self.offsets.items())
            },
            "state": {key: len(records) for key, records in sorted(self.state.items())},
        }


@dataclass(frozen=True)
class Rollback:
    """The snapshots at the three moments. ``torn``: the keys whose state was not rolled back
    together with the offsets.
    """

    snapshots: tuple[Snapshot, Snapshot, Snapshot]
    torn: tuple[str, ...]

    def row(self) -> dict[str, object]:
        """Return the rollback as plain data."""
        return {
            "snapshots": [snapshot.row() for snapshot in self.snapshots],
            "torn": list(self.torn),
        }


def rollback_detail(history: History) -> dict[str, Any] | None:
    """Return the rollback of a query as plain data; ``None`` if the history shows none."""
    found = rollback_of(history)
    return None if found is None else found.row()


def rollback_of(history: History) -> Rollback | None:
    """Return the rollback of a query whose driver was replaced; ``None`` without state or without a
    second driver.
    """
    states: dict[str, list[kinds.State]] = {}
    for event in history.of(kinds.State):
        states.setdefault(event.by, []).append(event)
    if len(states) < 2:  # noqa: PLR2004 - one driver, or none: nothing was rolled back
        return None
    old, *_, new = states
    planned = {
        by: [event for event in history.of(kinds.Batch) if event.by == f"{by}-jvm"]
        for by in (old, new)
    }
    if not all(planned.values()):
        return None
    resumed = planned[new][0].batch
    # a checkpoint of its own, or none, begins with batch 0: nothing of the old driver's is in it
    saved = _after(event for event in states[old] if event.batch < resumed)
    first = [event for event in states[new] if event.batch == states[new][0].batch]
    loaded = {event.key: _without(event.records, event.news) for event in first}
    restored = {key: records for key, records in (saved | loaded).items() if records}
    torn = tuple(
        sorted(
            key
            for key, records in loaded.items()
            if Counter(records) != Counter(saved.get(key, ()))
        )
    )
    return Rollback(
        (
            Snapshot(
                Moment.BEFORE,
                planned[old][-1].batch,
                _ends(planned[old]),
                _after(states[old]),
            ),
            Snapshot(Moment.AFTER, resumed - 1, _begins(planned[new], resumed), restored),
            Snapshot(
                Moment.END,
                planned[new][-1].batch,
                _ends(planned[new]),
                restored | _after(states[new]),
            ),
        ),
        torn,
    )


def _after(states: Iterable[kinds.State]) -> State:
    return {state.key: state.records for state in states}


def _without(records: Sequence[str | None], news: Sequence[str | None]) -> tuple[str | None, ...]:
    rest = list(records)
    for record in news:
        rest.remove(record)
    return tuple(rest)


def _begins(batches: Sequence[kinds.Batch], number: int) -> dict[int, int]:
    """Return the offset, by partition, at which a batch begins."""
    return {batch.partition: batch.offset for batch in batches if batch.batch == number}


def _ends(batches: Sequence[kinds.Batch]) -> dict[int, int]:
    """Return the position, by partition, at which the last batch ends."""
    return {b.partition: b.position for b in batches if b.batch == batches[-1].batch}
