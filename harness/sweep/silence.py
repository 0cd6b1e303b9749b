"""Learns from a sweep's cells how long nothing may move in a drain before a cell
counts as stuck.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.model.cell import Cell

TWICE = 2.0
"""A cell waits this many times the longest silence after which something still moved."""


@dataclass
class Silence:
    """The silences of a sweep's drains. Safe to use from several threads."""

    longest_s: float = 0.0
    """The longest silence after which something moved again, in any cell so far."""
    _given_up: dict[str, float] = field(default_factory=dict)
    """The silence, in seconds, after which a cell was given up, by the cell's id."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def rest_s(self, least_s: float) -> float:
        """Return the longest silence that is waited for, in seconds: ``least_s`` or twice the
        longest silence seen, whichever is longer.
        """
        with self._lock:
            return max(least_s, TWICE * self.longest_s)

    def learn(self, cell: Cell, still_s: float, *, moved: bool) -> None:
        """Record a silence of a cell, in seconds, and whether something then moved again or the
        cell was given up.
        """
        with self._lock:
            if moved:
                self.longest_s = max(self.longest_s, still_s)
            else:
                self._given_up[cell.id] = still_s

    def too_short(self, cells: Iterable[Cell]) -> set[str]:
        """Return the ids of cells that were given up after a shorter silence than one that has
        since ended by itself.
        """
        with self._lock:
            return {
                cell.id
                for cell in cells
                if self._given_up.get(cell.id, self.longest_s) < self.longest_s
            }
