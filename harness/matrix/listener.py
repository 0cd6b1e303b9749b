"""The interface by which a run tells its progress, and a wrapper that calls it from one thread at a
time.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.saved import CellResult


class Progress(Protocol):
    """Receives the progress of a run. Several threads call it, one call at a time."""

    def say(self, text: str) -> None:
        """Show a line about set-up or deployment."""

    def planned(self, cells: Sequence[Cell]) -> None:
        """Note that these cells are planned."""

    def began(self, cell: Cell, directory: Path) -> None:
        """Note that a cell has begun, and in which folder its history and logs will be."""

    def ended(self, result: CellResult) -> None:
        """Note that a cell has ended and is judged."""


class OneAtATime:
    """Passes progress on, one call at a time."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._lock = threading.Lock()

    def say(self, text: str) -> None:
        """Pass on a line."""
        with self._lock:
            self._progress.say(text)

    def planned(self, cells: Sequence[Cell]) -> None:
        """Pass on what is to run."""
        with self._lock:
            self._progress.planned(cells)

    def began(self, cell: Cell, directory: Path) -> None:
        """Pass on that a cell has begun."""
        with self._lock:
            self._progress.began(cell, directory)

    def ended(self, result: CellResult) -> None:
        """Pass on that a cell has ended."""
        with self._lock:
            self._progress.ended(result)
