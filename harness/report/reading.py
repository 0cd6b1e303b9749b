"""Reads lines of a cell's history for the parts of a report that do not decide the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model.history import HISTORY, read_history

if TYPE_CHECKING:
    from harness.model.history import Event
    from harness.saved import CellResult


def lines_of(result: CellResult, *kinds: str) -> list[Event]:
    """Return the events of these kinds in a cell's history; none if it cannot be read."""
    try:
        return list(read_history(result.directory / HISTORY).of(*kinds))
    except Exception:  # noqa: BLE001 - a damaged history holds anything; the verdict says that it is
        return []
