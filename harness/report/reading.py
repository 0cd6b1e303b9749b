"""Reads lines of a cell's history for the parts of a report that do not decide the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from harness.model.events import Event, OfUnknownKind
from harness.model.history import HISTORY, read_history

if TYPE_CHECKING:
    from harness.saved import CellResult

E = TypeVar("E", bound=Event)


def lines_of(result: CellResult, *kinds: type[E]) -> list[E]:
    """Return the events of these kinds in a cell's history; none if it cannot be read."""
    try:
        told = read_history(result.directory / HISTORY).of(*kinds)
        return [event for event in told if isinstance(event, kinds)]
    except Exception:  # noqa: BLE001 - a damaged history holds anything; the verdict says that it is
        return []


def record_of(event: Event) -> str | None:
    """Return the one record that a line names, of whatever kind it is."""
    record: str | None = _field(event, "record")
    return record


def records_of(event: Event) -> tuple[str | None, ...] | None:
    """Return the records that a line lists, of whatever kind it is; ``None`` if it has no list."""
    many = _field(event, "records")
    return tuple(many) if isinstance(many, tuple | list) else None


def _field(event: Event, name: str) -> Any:
    told = event.fields if isinstance(event, OfUnknownKind) else {}
    return told.get(name, getattr(event, name, None))
