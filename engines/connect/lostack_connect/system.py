"""Kafka Connect as a system under test: prepare it, and deploy a broker for workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model.scenario import Role
from harness.provision.kafka import VERSION as KAFKA
from harness.stages.clients import PRELOADS
from harness.systems.kafka.system import DeployedOnKafka, Prepared, started
from lostack_connect.archive import ensure_worker_archive
from lostack_connect.install import VERSION, ensure_connect
from lostack_connect.parts import parts_of
from lostack_connect.settings import NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.model.scenario import Deployment
    from harness.run.parts import Parts
    from harness.systems.kafka.parts import CellOnKafka
    from harness.systems.kafka.services import Services
    from harness.systems.kafka.transport import KafkaTransport
    from lostack_connect.install import ConnectInstall


class ConnectSystem:
    """Kafka Connect: workers for each cell, on a broker that cells share. Implements
    :class:`harness.interfaces.Launcher`.
    """

    def __init__(self, runtime: str = "process", version: str | None = None) -> None:
        """``version``: of Kafka Connect, with known checksums."""
        self.name = NAME if version is None else f"{NAME}=={version}"
        self._version = version or VERSION
        self._kafka = Prepared(runtime)
        self._install: ConnectInstall | None = None

    def prepare(self, say: Callable[[str], None]) -> None:
        """Fetch Kafka and Kafka Connect, and compile lostack's connectors."""
        self._kafka.prepare(say)
        if self._install is None:
            ensure_worker_archive(say, KAFKA, self._version)
            self._install = ensure_connect(say, self._version)

    def prepare_for(self, cells: Iterable[Cell], say: Callable[[str], None]) -> Mapping[str, str]:
        """Fetch what only some cells need. Return who lacks what."""
        return self._kafka.prepare_for(cells, say)

    def deploy(self, need: Deployment, directory: Path) -> ConnectDeployed:
        """Start a broker with its wire."""
        if self._install is None:
            raise RuntimeError("prepare() comes first")
        transport = self._kafka.transport(need, directory)
        services = self._kafka.services(transport, Role.CONSUMER)
        return started(ConnectDeployed(transport, services, self._install), directory)

    def versions(self) -> dict[str, str]:
        """Return the versions of Kafka and of Kafka Connect."""
        own = {} if self._install is None else {self.name: self._install.version}
        return self._kafka.versions(self.name) | own


class ConnectDeployed(DeployedOnKafka):
    """A running broker behind its wire, for the workers of cells."""

    def __init__(
        self, transport: KafkaTransport, services: Services, install: ConnectInstall
    ) -> None:
        super().__init__(transport, services)
        self._install = install

    def start(self) -> None:
        """Start the wire and the broker."""
        self.transport.start(preloads=PRELOADS["kafka-python"])

    def parts(self, on_kafka: CellOnKafka) -> Parts:
        """Return the parts of one cell."""
        return parts_of(on_kafka, install=self._install)
