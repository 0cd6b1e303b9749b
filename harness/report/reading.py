"""Lines of a cell's history, for what is only told beside its verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model.history import HISTORY, read_history

if TYPE_CHECKING:
    from harness.model.history import Event
    from harness.saved import CellResult


def lines_of(result: CellResult, *kinds: str) -> list[Event]:
    """Return the lines of these kinds of a cell's history; none where it cannot be read."""
    try:
        return list(read_history(result.directory / HISTORY).of(*kinds))
    except Exception:  # noqa: BLE001 - a damaged history holds anything; the verdict says that it is
        return []
