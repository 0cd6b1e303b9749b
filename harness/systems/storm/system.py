"""Storm as a system under test: prepare it, and deploy a broker and a cluster for topologies."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from harness.model.scenario import Role
from harness.provision.kafka import ensure_kafka
from harness.run.lacking import fetched_by_client
from harness.systems.kafka.system import DeployedOnKafka, Prepared, started
from harness.systems.storm.archive import with_archives
from harness.systems.storm.cluster import Cluster
from harness.systems.storm.install import ensure_client, ensure_storm
from harness.systems.storm.keeper import Keeper
from harness.systems.storm.parts import parts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.model.scenario import Deployment
    from harness.run.parts import Parts
    from harness.systems.kafka.parts import CellOnKafka
    from harness.systems.kafka.services import Services
    from harness.systems.kafka.transport import KafkaTransport
    from harness.systems.storm.install import StormInstall


class StormSystem:
    """Topologies of cells, on a Storm and a broker that cells share. Implements
    :class:`harness.interfaces.Launcher`.
    """

    name = "storm"
    own_at_once = 1
    """How many unshared deployments run at once, beside the shared one. Each is a broker and five
    JVMs.
    """

    def __init__(self, runtime: str = "process", version: str | None = None) -> None:
        del version  # only one version is supported
        self._kafka = Prepared(runtime)
        self._storm: StormInstall | None = None
        self._clients: dict[str, str] = {}

    def prepare(self, say: Callable[[str], None]) -> None:
        """Download Kafka and Storm, and compile the topologies."""
        self._kafka.prepare(say)
        kafka = ensure_kafka(say)
        self._storm = with_archives(ensure_storm(kafka, say), kafka, say)

    def prepare_for(self, cells: Iterable[Cell], say: Callable[[str], None]) -> dict[str, str]:
        """Download or build what only some cells need, such as the clients that they are pinned to.
        Return who lacks what.
        """
        cells = tuple(cells)
        pinned = [cell for cell in cells if "==" in cell.client]
        return self._kafka.prepare_for(cells, say) | fetched_by_client(
            pinned, partial(self._bring, say)
        )

    def _bring(self, say: Callable[[str], None], client: str) -> None:
        if self._storm is None:
            raise RuntimeError("prepare() comes first")
        self._clients[client] = ensure_client(self._storm, client, say)

    def deploy(self, need: Deployment, directory: Path) -> StormDeployed:
        """Start a broker with its wire, and a Storm beside it."""
        if self._storm is None:
            raise RuntimeError("prepare() comes first")
        transport = self._kafka.transport(need, directory)
        cluster = Cluster(transport.runtime, self._storm, directory / "storm", alone=need.alone)
        return started(
            StormDeployed(
                transport, self._kafka.services(transport, Role.PROCESSOR), cluster, self._clients
            ),
            directory,
        )

    def versions(self) -> dict[str, str]:
        """Return the versions of Kafka, Storm, and Storm's Kafka client."""
        return self._kafka.versions(self.name) | (self._storm.versions if self._storm else {})


class StormDeployed(DeployedOnKafka):
    """A running broker behind its wire, and a Storm for the topologies of cells."""

    def __init__(
        self,
        transport: KafkaTransport,
        services: Services,
        cluster: Cluster,
        clients: Mapping[str, str],
    ) -> None:
        """``clients``: pinned client → the class path of its topologies."""
        self._clients = clients
        super().__init__(transport, services)
        self.cluster = cluster
        self._keeper = Keeper(transport, cluster)

    def start(self) -> None:
        """Start Storm, and meanwhile the wire and the broker."""
        self.cluster.start()
        self.transport.start(preloads=())
        self.cluster.await_up()

    def parts(self, on_kafka: CellOnKafka) -> Parts:
        """Return the parts of one cell."""
        return parts_of(
            on_kafka,
            cluster=self.cluster,
            keeper=self._keeper,
            jars=self._clients.get(on_kafka.scene.cell.client, ""),
        )

    def check(self) -> None:
        """Raise EnvironmentFailure if a process of the deployment died by itself."""
        super().check()
        self.cluster.check()

    def close(self) -> None:
        """Stop Storm, then the services, the broker and the wire."""
        try:
            self.cluster.close()
        finally:
            super().close()
