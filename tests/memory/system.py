"""The in-memory system: it tests lostack itself, and says nothing about a real system.

It *simulates* a cell as theory predicts it. Records go from a source through a log, or a queue if
the cell's settings say so, to a sink. The fault fires at its target, the victims die and come back,
what must be lost is lost, what must be duplicated is duplicated, and the sign of protection shows.
The complete history of a real run is written. A :class:`~tests.memory.plants.Plant` adds
a bug: a system that loses k records must be convicted of exactly k, and a run whose fault never
fires must be void.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.stages.settings import Settings
from tests.memory.log import LogRun
from tests.memory.plants import Plant
from tests.memory.play import MemoryCellRun
from tests.memory.queue import QueueRun

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.model.history import HistoryWriter
    from harness.model.scenario import Deployment


def launch(_runtime: str, _version: str | None) -> MemorySystem:
    """Return the in-memory system, without planted bugs."""
    return MemorySystem()


class MemorySystem:
    """A simulated system. ``plants``: bugs by scenario id; ``plant``: bugs of all
    other scenarios.
    """

    name = "memory"

    def __init__(
        self, plant: Plant | None = None, plants: Mapping[str, Plant] | None = None
    ) -> None:
        self._plant = plant or Plant()
        self._plants = plants or {}

    def prepare(self, say: Callable[[str], None]) -> None:
        """Say that nothing real is tested."""
        say("the in-memory system is a simulation: nothing real is crashed")

    def deploy(self, need: Deployment, directory: Path) -> MemoryDeployed:
        """Return a deployment without processes."""
        del need, directory
        return MemoryDeployed(self._plant, self._plants)

    def versions(self) -> dict[str, str]:
        """Return the version of Python."""
        return {"memory": "simulated", "python": sys.version.split()[0]}


@dataclass(frozen=True)
class MemoryDeployed:
    """A deployment without processes."""

    plant: Plant
    plants: Mapping[str, Plant]

    def together(self, cells: Sequence[Cell]) -> None:
        """Do nothing: every simulated run has its own broker."""

    def cell_run(self, cell: Cell, directory: Path, history: HistoryWriter) -> MemoryCellRun:
        """Return the simulated run of one cell."""
        run = QueueRun if Settings.of(cell.settings).topic.is_queue else LogRun
        return run(cell, directory, history, self.plants.get(cell.scenario.id, self.plant))

    def check(self) -> None:
        """Do nothing: there is no process that could die."""

    def close(self) -> None:
        """Do nothing: there is no process to stop."""


__all__ = ["MemoryCellRun", "MemoryDeployed", "MemorySystem"]
