"""Kafka Streams as a system under test: prepare it, and deploy a broker for applications."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from harness.model.scenario import Role
from harness.provision.kafka import ensure_kafka
from harness.run.lacking import fetched_by_client
from harness.runtimes.interface import JAVA_IMAGE
from harness.stages.clients import PRELOADS
from harness.systems.kafka.system import DeployedOnKafka, Prepared, started
from harness.systems.streams.install import CLIENT, VERSION, StreamsInstall, ensure_streams
from harness.systems.streams.parts import parts_of
from harness.systems.streams.settings import NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.model.scenario import Deployment
    from harness.run.parts import Parts
    from harness.systems.kafka.parts import CellOnKafka
    from harness.systems.kafka.services import Services
    from harness.systems.kafka.transport import KafkaTransport


class StreamsSystem:
    """Kafka Streams: instances of an application for each cell, on a broker that cells share.

    Implements :class:`harness.interfaces.Launcher`.
    """

    def __init__(self, runtime: str = "process", version: str | None = None) -> None:
        """``version``: of Kafka Streams, with known checksums. A client's own version goes before
        it.
        """
        self.name = NAME if version is None else f"{NAME}=={version}"
        self._version = version or VERSION
        self._kafka = Prepared(runtime)
        self._contained = runtime == "docker"
        self._installs: dict[str, StreamsInstall] = {}

    def prepare(self, say: Callable[[str], None]) -> None:
        """Download Kafka and Kafka Streams, compile lostack's topologies, and make the class-data
        archive.
        """
        self._kafka.prepare(say)
        self._kafka.stood_on().bring((JAVA_IMAGE,), say)
        self._bring(say, CLIENT)

    def prepare_for(self, cells: Iterable[Cell], say: Callable[[str], None]) -> dict[str, str]:
        """Download the versions of Kafka Streams that cells are pinned to. Return who
        lacks what.
        """
        cells = tuple(cells)
        return self._kafka.prepare_for(cells, say) | fetched_by_client(
            cells, partial(self._bring, say)
        )

    def _bring(self, say: Callable[[str], None], client: str) -> None:
        if client not in self._installs:
            install = ensure_streams(
                ensure_kafka(say), say, client.partition("==")[2] or self._version
            )
            self._installs[client] = install.contained() if self._contained else install

    def deploy(self, need: Deployment, directory: Path) -> StreamsDeployed:
        """Start a broker with its wire."""
        transport = self._kafka.transport(need, directory)
        services = self._kafka.services(transport, Role.PROCESSOR)
        return started(StreamsDeployed(transport, services, self._installs), directory)

    def versions(self) -> dict[str, str]:
        """Return the versions of Kafka, and of Kafka Streams."""
        return self._kafka.versions(self.name) | {
            client: install.version for client, install in self._installs.items()
        }


class StreamsDeployed(DeployedOnKafka):
    """A running broker behind its wire, for the instances of cells."""

    def __init__(
        self, transport: KafkaTransport, services: Services, installs: Mapping[str, StreamsInstall]
    ) -> None:
        super().__init__(transport, services)
        self._installs = installs

    def start(self) -> None:
        """Start the wire and the broker."""
        self.transport.start(preloads=PRELOADS["kafka-python"])

    def parts(self, on_kafka: CellOnKafka) -> Parts:
        """Return the parts of one cell."""
        return parts_of(on_kafka, install=self._installs[on_kafka.scene.cell.client])
