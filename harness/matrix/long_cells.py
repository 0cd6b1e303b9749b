"""Says every minute how far each running cell is."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.interfaces import TellsWhereItIs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from harness.interfaces import CellRun
    from harness.model.cell import Cell

TELL_S: Final = 60.0
"""How often (seconds) a line says where a cell is."""


@dataclass
class _Running:
    cell: Cell
    run: CellRun
    since: float
    told: float


class LongCells:
    """The cells that are running. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[str, _Running] = {}

    @contextmanager
    def running(self, cell: Cell, run: CellRun) -> Iterator[None]:
        """Within the block the cell is running."""
        now = time.monotonic()
        with self._lock:
            self._running[cell.id] = _Running(cell, run, now, now)
        try:
            yield
        finally:
            with self._lock:
                self._running.pop(cell.id, None)

    def tell(self, say: Callable[[str], None]) -> None:
        """Say a line for each cell that has run for ``TELL_S`` since its last line, or since it
        began.
        """
        now = time.monotonic()
        with self._lock:
            due = [each for each in self._running.values() if now - each.told >= TELL_S]
            for each in due:
                each.told = now
        for each in due:
            where = each.run.where() if isinstance(each.run, TellsWhereItIs) else ""
            say(
                f"{each.cell.scenario.id}/{each.cell.semantic} has run for "
                f"{now - each.since:.0f} s{where and ': '}{where}"
            )
