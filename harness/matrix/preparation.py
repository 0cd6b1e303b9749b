"""Prepares the systems of a run: downloads and whatever else their cells need."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

from harness.interfaces import PreparesForCells
from harness.matrix.threads import Thread
from harness.model.failures import EnvironmentFailure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.interfaces import Launcher
    from harness.matrix.run_state import RunState
    from harness.model.cell import Cell

ASIDE_NICE = 10
"""The niceness at which a system is prepared while the previous system's cells run."""


class Preparation:
    """Prepares systems, and knows the cells that this machine cannot run."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self.lacking: dict[str, str] = {}
        """What the machine lacks that only some cells need, by the ids of these cells."""

    def prepare(self, system: Launcher, cells: Sequence[Cell]) -> None:
        """Download and make what a system needs for its cells.

        Raises:
            EnvironmentFailure: the system cannot be had.
        """
        self._state.timed(f"set-up-{system.name}", lambda: self._prepare(system, cells))

    def _prepare(self, system: Launcher, cells: Sequence[Cell]) -> None:
        say = self._state.progress.say
        system.prepare(say)
        if isinstance(system, PreparesForCells):
            self.lacking |= system.prepare_for([*cells], say)

    def begin(self, system: Launcher, cells: Sequence[Cell]) -> Thread:
        """Begin to prepare a system while the cells of another one run; return the thread."""
        thread = Thread(target=self._ahead, args=(system, cells), name=f"prepare-{system.name}")
        thread.start()
        return thread

    def _ahead(self, system: Launcher, cells: Sequence[Cell]) -> None:
        try:
            os.nice(ASIDE_NICE)  # on Linux this thread's own, and of the programs that it starts
            self.prepare(system, cells)
        except EnvironmentFailure as error:  # the other systems' cells do not need it
            self.lacking |= {cell.id: str(error) for cell in cells}
        except BaseException as error:  # noqa: BLE001 - whatever it is ends the run, which raises it
            self._state.fail(error)

    def without(self, cells: Sequence[Cell]) -> list[tuple[Cell, str]]:
        """Return the cells that cannot run, each with the reason, and say how many there are."""
        found = [cell for cell in cells if cell.id in self.lacking]
        for because, count in Counter(self.lacking[cell.id] for cell in found).items():
            self._state.progress.say(f"cells that cannot run on this machine: {count} ({because})")
        return [(cell, self.lacking[cell.id]) for cell in found]
