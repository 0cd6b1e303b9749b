"""Flink as a system under test: a Kafka to read and write, and a cluster that runs the jobs of cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model.scenario import Deployment, Role
from harness.run.cell import CellRun
from harness.systems.flink.cluster import Cluster
from harness.systems.flink.install import ensure_flink
from harness.systems.flink.parts import parts_of
from harness.systems.kafka.system import Prepared, started

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.model.history import HistoryWriter
    from harness.systems.flink.install import FlinkInstall
    from harness.systems.kafka.services import Services
    from harness.systems.kafka.transport import KafkaTransport


class FlinkSystem:
    """A job for each cell, on a cluster and a broker that cells share. Implements :class:`harness.interfaces.Launcher`."""

    name = "flink"

    def __init__(self, runtime: str = "process", version: str | None = None) -> None:
        del version  # there is one
        self._kafka = Prepared(runtime)
        self._flink: FlinkInstall | None = None

    def prepare(self, say: Callable[[str], None]) -> None:
        """Fetch what Kafka, Flink and its connector need, and compile the job."""
        self._kafka.prepare(say)
        self._flink = ensure_flink(say)

    def prepare_for(self, cells: Iterable[Cell], say: Callable[[str], None]) -> None:
        """Fetch or build what only some cells need."""
        self._kafka.prepare_for(cells, say)

    def deploy(self, need: Deployment, directory: Path) -> FlinkDeployed:
        """Start a broker with its wire, and a cluster beside it."""
        if self._flink is None:
            raise RuntimeError("prepare() comes first")
        transport = self._kafka.transport(need, directory)
        # one alone is nobody's spare: where a cell has the cluster to itself, nobody may take over unasked
        cluster = Cluster(transport.runtime, self._flink, directory / "flink", at_first=2 if need is Deployment.SHARED else 1)
        return started(FlinkDeployed(transport, self._kafka.services(transport, Role.PROCESSOR), cluster), directory)

    def versions(self) -> dict[str, str]:
        """Those of Kafka, Flink, and the client in its connector."""
        return self._kafka.versions(self.name) | (self._flink.versions if self._flink else {})


class FlinkDeployed:
    """A broker behind its wire, and a cluster for the jobs of cells."""

    def __init__(self, transport: KafkaTransport, services: Services, cluster: Cluster) -> None:
        self.transport = transport
        self.cluster = cluster
        self._services = services

    def start(self) -> None:
        """Start the cluster, and meanwhile wire and broker."""
        self.cluster.start()
        self.transport.start(preloads=())
        self.cluster.await_up()

    def together(self, cells: Sequence[Cell]) -> None:
        """Share no death of a broker."""

    def cell_run(self, cell: Cell, directory: Path, history: HistoryWriter) -> CellRun:
        """Return the run of one cell."""
        parts = parts_of(cell, directory, history, transport=self.transport, services=self._services, cluster=self.cluster)
        return CellRun(cell, history, parts)

    def check(self) -> None:
        """Raise EnvironmentFailure where anything of it has died by itself."""
        self.transport.check()
        self._services.check()
        self.cluster.check()

    def close(self) -> None:
        """End the cluster, then services, broker and wire."""
        try:
            self.cluster.close()
        finally:
            self._services.close()
            self.transport.close()
