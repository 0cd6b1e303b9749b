"""Ribbons: the source, and every partition, as a strip of positions, so that one batch and
scattered losses look different.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from harness.model import events as kinds
from harness.model.states import Hop, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from harness.judge.record_row import RecordRow
    from harness.model.history import Event

_Log: TypeAlias = tuple[str, str, int]
"""Hop, topic and partition."""
MOST_STRETCHES = 1000
"""Maximum number of stretches in one ribbon."""


@dataclass(frozen=True, slots=True)
class RecordRange:
    """Positions ``start`` to ``end`` (included) whose records had the same fate."""

    kind: str
    start: int
    end: int


@dataclass(frozen=True)
class Ribbon:
    """One strip: positions ``start`` to ``end`` (excluded). What no stretch covers holds none
    (markers, foreign ones, gaps).
    """

    name: str
    start: int
    end: int
    stretches: tuple[RecordRange, ...]
    flushed: int | None = None
    """After a power loss: the first position that had not been flushed."""
    cut: int = 0
    """The number of stretches left out."""


def ribbons_of(events: Sequence[Event], rows: Sequence[RecordRow]) -> tuple[Ribbon, ...]:
    """Return the ribbons of the source and of every partition of every log, from a cell's events
    and its record table. A queue has none, because its places are no positions.
    """
    fates: dict[str | None, str] = {row["record"]: _fate(row) for row in rows}
    places = sorted((int(row["position"]), fates[row["record"]]) for row in rows)
    found = [_ribbon("source", places[0][0], places[-1][0] + 1, places)] if places else []
    copies: dict[_Log, list[tuple[int, str]]] = {}
    limits: dict[_Log, tuple[int, int, int]] = {}
    flushed = {
        event.partition: event.offset for event in events if isinstance(event, kinds.Flushed)
    }
    seen: set[tuple[Hop, str | None]] = set()
    for event in events:
        if isinstance(event, kinds.Log) and event.hop != Hop.CURSOR:
            limits[_log(event)] = event.start, event.end, event.stable
    for event in events:
        if isinstance(event, kinds.Stored) and event.offset is not None and not event.foreign:
            stable = limits.get(_log(event), (0, 0, 0))[2]
            fate = _copy_fate(event, fates, stable, seen)
            copies.setdefault(_log(event), []).append((event.offset, fate))
    for log in sorted({*copies, *limits}):
        hop, topic, partition = log
        start, end, _ = limits.get(
            log, (0, max((offset for offset, _ in copies.get(log, ())), default=-1) + 1, 0)
        )
        limit = flushed.get(partition) if hop == "topic" else None
        found.append(
            _ribbon(
                f"{topic}, partition {partition}", start, end, sorted(copies.get(log, ())), limit
            )
        )
    return tuple(found)


def _log(event: kinds.Log | kinds.Stored) -> _Log:
    return str(event.hop), str(event.topic), event.partition or 0


def _fate(row: RecordRow) -> str:
    if row["state"] == State.RECORDED:
        return "duplicated" if row["recordings"] > 1 else "recorded"
    return "lost" if row["state"] == State.LOST else "left"


def _copy_fate(
    event: kinds.Stored,
    fates: Mapping[str | None, str],
    stable: int,
    seen: set[tuple[Hop, str | None]],
) -> str:
    """Return the fate of a record's copy in a log. A second copy is ``again``, recorded or
    absorbed.
    """
    if event.record not in fates:
        return "phantom"
    if not event.visible:
        return "left" if (event.offset or 0) >= stable else "aborted"
    first = (event.hop, event.record) not in seen
    seen.add((event.hop, event.record))
    fate = fates[event.record]
    return fate if first or fate == "duplicated" else "again"


def _ribbon(
    name: str, start: int, end: int, places: Iterable[tuple[int, str]], flushed: int | None = None
) -> Ribbon:
    stretches: list[RecordRange] = []
    for position, kind in places:
        last = stretches[-1] if stretches else None
        if last is not None and last.kind == kind and last.end + 1 == position:
            stretches[-1] = RecordRange(kind, last.start, position)
        else:
            stretches.append(RecordRange(kind, position, position))
    cut = max(len(stretches) - MOST_STRETCHES, 0)
    return Ribbon(name, start, end, tuple(stretches[:MOST_STRETCHES]), flushed, cut)
