"""Declared pipelines on our Kafka: one cell at a time on a broker, for a user's programs name their topics themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.core.scenario import Deployment
from harness.pipelines.cells import SYSTEM, DeclaredCell
from harness.systems.declared.run import DeclaredRun
from harness.systems.kafka.system import KafkaDeployed, KafkaSystem

if TYPE_CHECKING:
    from pathlib import Path

    from harness.core.cell import Cell
    from harness.core.history import HistoryWriter
    from harness.interfaces import CellRun
    from harness.systems.kafka.ground import Ground


class DeclaredSystem(KafkaSystem):
    """Kafka for declared pipelines."""

    name = SYSTEM

    def __init__(self, *, keep: bool = False) -> None:
        """``keep``: a broker that cells may share stays up between runs, until :meth:`close`."""
        super().__init__()
        self._keep = keep
        self._kept: KafkaDeployed | None = None

    def deploy(self, need: Deployment, directory: Path) -> KafkaDeployed:
        """Start a deployment, or take the one that was kept."""
        if not self._keep or need is not Deployment.SHARED:
            return super().deploy(need, directory)
        if self._kept is None:
            self._kept = super().deploy(need, directory)
        return _Kept(self._kept)  # type: ignore[return-value]  # the runner asks nothing else of it

    def close(self) -> None:
        """End what was kept."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _deployment(self, ground: Ground, directory: Path) -> KafkaDeployed:
        return DeclaredDeployed(ground, directory)


class _Kept:
    """A deployment that a run may use and not end."""

    def __init__(self, deployed: KafkaDeployed) -> None:
        self._deployed = deployed

    def cell_run(self, cell: Cell, directory: Path, history: HistoryWriter) -> CellRun:
        """Return the run of one cell."""
        return self._deployed.cell_run(cell, directory, history)

    def check(self) -> None:
        """Raise EnvironmentFailure where it has broken."""
        self._deployed.check()

    def close(self) -> None:
        """Leave it up."""


class DeclaredDeployed(KafkaDeployed):
    """A broker behind its wire, all of whose routes belong to the cell that is running."""

    def cell_run(self, cell: Cell, directory: Path, history: HistoryWriter) -> CellRun:  # type: ignore[override]
        """Return the run of one cell."""
        if not isinstance(cell, DeclaredCell):
            raise TypeError(f"{cell.id} is no declared pipeline")
        return DeclaredRun(self, cell, directory, history)
