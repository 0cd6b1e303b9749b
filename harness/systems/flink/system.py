"""Flink as a system under test: prepare it, and deploy a broker and a cluster for jobs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from harness.model.scenario import Deployment, Role
from harness.provision.kafka import ensure_kafka
from harness.run.lacking import fetched_by_client
from harness.runtimes.interface import JAVA_IMAGE
from harness.systems.flink.archive import with_archives
from harness.systems.flink.cluster import Cluster
from harness.systems.flink.install import CLIENT, VERSION, ensure_flink
from harness.systems.flink.parts import parts_of
from harness.systems.kafka.system import DeployedOnKafka, Prepared, started

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.run.parts import Parts
    from harness.systems.flink.install import FlinkInstall
    from harness.systems.kafka.parts import CellOnKafka
    from harness.systems.kafka.services import Services
    from harness.systems.kafka.transport import KafkaTransport


class FlinkSystem:
    """Jobs of cells, on a cluster and a broker that cells share. Implements
    :class:`harness.interfaces.Launcher`.
    """

    name = "flink"
    own_at_once = 1
    """How many unshared deployments run at once, beside the shared one. Each is a broker and three
    JVMs.
    """

    def __init__(self, runtime: str = "process", version: str | None = None) -> None:
        """``version``: a version other than the default, with known checksums."""
        self._kafka = Prepared(runtime)
        self._contained = runtime == "docker"
        self._version = version or VERSION
        self._installs: dict[str, FlinkInstall] = {}
        if version is not None:
            self.name = f"{self.name}=={version}"

    def prepare(self, say: Callable[[str], None]) -> None:
        """Download Kafka, Flink and the connector, compile the job, and make the class-data
        archives.
        """
        self._kafka.prepare(say)
        self._kafka.stood_on().bring((JAVA_IMAGE,), say)
        self._bring(say, CLIENT)

    def prepare_for(self, cells: Iterable[Cell], say: Callable[[str], None]) -> dict[str, str]:
        """Download the connectors that cells are pinned to. Each gets its own cluster, whose class
        path has it.

        Return who lacks what.
        """
        cells = tuple(cells)
        lacking = self._kafka.prepare_for(cells, say)
        lacking |= fetched_by_client(cells, partial(self._bring, say))
        clients = {cell.client for cell in cells} or {CLIENT}
        self._installs = {
            client: install for client, install in self._installs.items() if client in clients
        }
        return lacking

    def _bring(self, say: Callable[[str], None], client: str) -> None:
        if client in self._installs:
            return
        install = ensure_flink(say, client.partition("==")[2], self._version)
        if self._contained:
            install = install.contained()
        elif (client, self._version) == (CLIENT, VERSION):
            install = with_archives(install, ensure_kafka(say), say)
        self._installs[client] = install

    def deploy(self, need: Deployment, directory: Path) -> FlinkDeployed:
        """Start a broker with its wire, and a cluster for each connector that cells are pinned to.

        Jobs write checkpoints and histories into the folders of their cells. So containers of the
        cluster mount the folder of the run, which contains ``directory`` and the cells' folders.
        """
        if not self._installs:
            raise RuntimeError("prepare() comes first")
        transport = self._kafka.transport(need, directory)
        # a cell with its own cluster gets no spare TaskManager that could take over too early
        at_first = 2 if need is Deployment.SHARED else 1
        clusters = {}
        for number, (client, install) in enumerate(self._installs.items(), start=1):
            key = f"cluster-{number}-" if number > 1 else ""
            folder = directory / f"{key}flink"
            clusters[client] = Cluster(
                transport.runtime, install, folder, directory.parents[1], key, at_first
            )
        return started(
            FlinkDeployed(transport, self._kafka.services(transport, Role.PROCESSOR), clusters),
            directory,
        )

    def versions(self) -> dict[str, str]:
        """Return the versions of Kafka, Flink and the connectors."""
        connectors = {client: install.connector for client, install in self._installs.items()}
        return (
            self._kafka.versions(self.name)
            | ({self.name: self._version} if connectors else {})
            | connectors
        )


class FlinkDeployed(DeployedOnKafka):
    """A running broker behind its wire, and a cluster for each client (connector)."""

    def __init__(
        self, transport: KafkaTransport, services: Services, clusters: Mapping[str, Cluster]
    ) -> None:
        super().__init__(transport, services)
        self._clusters = clusters

    def start(self) -> None:
        """Start the clusters, and meanwhile the wire and the broker."""
        for cluster in self._clusters.values():
            cluster.start()
        self.transport.start(preloads=())
        for cluster in self._clusters.values():
            cluster.await_up()

    def parts(self, on_kafka: CellOnKafka) -> Parts:
        """Return the parts of one cell."""
        return parts_of(on_kafka, cluster=self._clusters[on_kafka.scene.cell.client])

    def check(self) -> None:
        """Raise EnvironmentFailure if a process of the deployment died by itself."""
        super().check()
        for cluster in self._clusters.values():
            cluster.check()

    def close(self) -> None:
        """Stop the clusters, then the services, the broker and the wire."""
        try:
            for cluster in self._clusters.values():
                cluster.close()
        finally:
            super().close()
