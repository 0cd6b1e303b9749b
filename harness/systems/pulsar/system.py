"""Pulsar as a system under test: prepare it, and deploy a broker for lostack's own stages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.model.cell import client_name
from harness.provision.clients import ClientSetup, prepare_client
from harness.run.queue_launcher import BrokerLauncher
from harness.run.runtimes import prepare_runtimes
from harness.stages.clients import PULSAR_JAVA
from harness.stages.settings import Settings
from harness.systems.pulsar.archive import with_archive
from harness.systems.pulsar.broker import PulsarBroker, besides, namespace_of
from harness.systems.pulsar.install import VERSION, Install, ensure
from harness.systems.pulsar.sink import TopicSink

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.run.queue_broker import Results
    from harness.run.scene import CellScene

CLIENT_VERSION: Final = "3.13.0"
"""The default version of the Python client. Each version has its own environment."""


class PulsarSystem(BrokerLauncher[PulsarBroker]):
    """Pulsar, in one runtime."""

    name = "pulsar"

    def __init__(self, runtime: str = "process", version: str | None = None) -> None:
        """``version``: a version other than the default, with known checksums."""
        super().__init__(runtime, version)
        if version is not None:
            self.name = f"{self.name}=={version}"
        self._found: Install | None = None

    @property
    def _install(self) -> Install:
        if self._found is None:
            raise RuntimeError("prepare() comes first")
        return self._found

    def prepare(self, say: Callable[[str], None]) -> None:
        """Download Java and the jars, make the class-data archive and build images, unless they are
        available.
        """
        self.runtimes = prepare_runtimes(self.runtime, say)
        self._found = with_archive(ensure(say, self.version or VERSION), say)

    def client(self, client: str, say: Callable[[str], None]) -> ClientSetup:
        """Return a client: that in Java comes with the broker's jars."""
        if client == PULSAR_JAVA:
            return self._install.client(say)
        whole = client if client != client_name(client) else f"{client}=={CLIENT_VERSION}"
        return prepare_client(whole, say)

    def broker(self, directory: Path) -> PulsarBroker:
        """Return a broker that is not started yet."""
        return PulsarBroker(self._install, directory, self.runtimes, self.settings)

    def settings_of(self, cell: Cell) -> Mapping[str, str]:
        """Return the settings of the broker that a cell needs."""
        return {**besides(Settings.of(cell.settings)), **cell.scenario.broker_settings}

    def seen(self, broker: PulsarBroker, cell: Cell) -> PulsarBroker:
        """Return the broker, which knows the namespace of a cell."""
        broker.place(cell.key, namespace_of(Settings.of(cell.settings)))
        return broker

    def to_queue(self, cell: Cell, broker: PulsarBroker) -> Callable[[CellScene], Results] | None:
        """Return what makes the topic of results, if a processor sends them to one."""
        to_topic = cell.scenario.pipeline.to_topic
        return (lambda scene: TopicSink(scene, broker)) if to_topic else None

    def own_versions(self) -> Mapping[str, str]:
        """Return the versions of Pulsar and Java."""
        found = self._found
        return {} if found is None else {self.name: found.version, "java": found.java.version}
