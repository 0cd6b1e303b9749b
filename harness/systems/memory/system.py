"""The in-memory system: it exists to test the harness, and says nothing about any real one.

It *plays* a cell as theory predicts it: records go from a source through a log, or a queue where the cell's settings say so, to
a sink, the fault fires at its target, the victims die and come back, what must be lost is lost, what must be duplicated is
duplicated, and the sign of protection shows. The whole history of a real run is written. A
:class:`~harness.systems.memory.plants.Plant` makes it lie: a system that loses k records must be convicted of exactly k, and one
whose fault never fires must be void.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.stages.settings import ours
from harness.systems.memory.log import LogRun
from harness.systems.memory.plants import Plant
from harness.systems.memory.play import MemoryCellRun
from harness.systems.memory.queue import QueueRun

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.model.history import HistoryWriter
    from harness.model.scenario import Deployment


def launch(_runtime: str, _version: str | None) -> MemorySystem:
    """Return it, without any plant."""
    return MemorySystem()


class MemorySystem:
    """A system that is played. ``plants`` is by scenario id; ``plant`` is for all others."""

    name = "memory"

    def __init__(self, plant: Plant | None = None, plants: Mapping[str, Plant] | None = None) -> None:
        self._plant = plant or Plant()
        self._plants = plants or {}

    def prepare(self, say: Callable[[str], None]) -> None:
        """Need nothing."""
        say("the in-memory system is a play: nothing real is crashed")

    def deploy(self, need: Deployment, directory: Path) -> MemoryDeployed:
        """Deploy nothing."""
        del need, directory
        return MemoryDeployed(self._plant, self._plants)

    def versions(self) -> dict[str, str]:
        """Return the version of what runs it."""
        return {"memory": "simulated", "python": sys.version.split()[0]}


@dataclass(frozen=True)
class MemoryDeployed:
    """Nothing that runs."""

    plant: Plant
    plants: Mapping[str, Plant]

    def together(self, cells: Sequence[Cell]) -> None:
        """Share nothing: every play has a broker of its own."""

    def cell_run(self, cell: Cell, directory: Path, history: HistoryWriter) -> MemoryCellRun:
        """Return the play of one cell."""
        run = QueueRun if ours(cell.settings).topic.is_queue else LogRun
        return run(cell, directory, history, self.plants.get(cell.scenario.id, self.plant))

    def check(self) -> None:
        """Find nothing: memory does not break."""

    def close(self) -> None:
        """Close nothing."""


__all__ = ["MemoryCellRun", "MemoryDeployed", "MemorySystem"]
