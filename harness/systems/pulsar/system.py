"""Pulsar as a system under test: prepare it, and deploy a broker for lostack's own stages."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Final

from harness.model.cell import client_name
from harness.model.scenario import Deployment
from harness.provision.clients import ClientSetup, prepare_client
from harness.run.cell import CellRun
from harness.run.lacking import fetched_by_client
from harness.run.queues import parts_of
from harness.run.runtimes import PROCESSES, prepare_runtimes
from harness.stages.clients import PULSAR_JAVA
from harness.stages.settings import Settings
from harness.systems.pulsar.archive import with_archive
from harness.systems.pulsar.broker import PulsarBroker, besides, namespace_of
from harness.systems.pulsar.install import VERSION, Install, ensure
from harness.systems.pulsar.sink import TopicSink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.model.history import HistoryWriter

CLIENT_VERSION: Final = "3.13.0"
"""The default version of the Python client. Each version has its own environment."""


class PulsarSystem:
    """Pulsar, in one runtime. Implements :class:`harness.interfaces.Launcher`."""

    name = "pulsar"

    def __init__(self, runtime: str = "process", version: str | None = None) -> None:
        """``version``: a version other than the default, with known checksums."""
        self._runtime, self._version = runtime, version or VERSION
        if version is not None:
            self.name = f"{self.name}=={version}"
        self._install: Install | None = None
        self._runtimes = PROCESSES
        self._clients: dict[str, ClientSetup] = {}
        self.settings: Mapping[str, str] = {}
        """Settings of a user for the brokers."""

    def prepare(self, say: Callable[[str], None]) -> None:
        """Download Java and the jars, make the class-data archive and build images, unless they are
        available.
        """
        self._runtimes = prepare_runtimes(self._runtime, say)
        self._install = with_archive(ensure(say, self._version), say)

    def prepare_for(self, cells: Iterable[Cell], say: Callable[[str], None]) -> dict[str, str]:
        """Download the clients of these cells. Return which cells cannot have theirs."""
        return fetched_by_client(cells, partial(self._bring, say))

    def _bring(self, say: Callable[[str], None], client: str) -> None:
        if self._install is None:
            raise RuntimeError("prepare() comes first")
        whole = client if client != client_name(client) else f"{client}=={CLIENT_VERSION}"
        setup = self._install.client(say) if client == PULSAR_JAVA else prepare_client(whole, say)
        self._clients[client] = self._runtimes.fit(setup)

    def deploy(self, need: Deployment, directory: Path) -> PulsarDeployed:
        """Start a broker with its wire, and wait until its health check passes."""
        if self._install is None:
            raise RuntimeError("prepare() comes first")
        broker = PulsarBroker(self._install, directory, self._runtimes, self.settings)
        if need is Deployment.TRACED:
            broker.trace_writes(broker.data)
        try:
            broker.start()
        except BaseException:
            broker.close()
            raise
        return PulsarDeployed(broker, self._clients)

    def versions(self) -> dict[str, str]:
        """Return the versions of Pulsar, its clients, Java and Python."""
        found = {
            client.partition("==")[0]: setup.version for client, setup in self._clients.items()
        }
        if self._install is not None:
            found |= {self.name: self._install.version, "java": self._install.java.version}
        return found | {"python": sys.version.split()[0]} | self._runtimes.versions()


class PulsarDeployed:
    """A running broker for cells of lostack's own stages. Safe to use from several threads, one per
    cell.
    """

    def __init__(self, broker: PulsarBroker, clients: Mapping[str, ClientSetup]) -> None:
        self.broker = broker
        self._clients = clients

    def together(self, cells: Sequence[Cell]) -> None:
        """Do nothing: cells on Pulsar share no crash."""

    def cell_run(self, cell: Cell, directory: Path, history: HistoryWriter) -> CellRun:
        """Return the run of one cell. A broker that the cell does not share gets the settings that
        the cell needs.
        """
        settings = Settings.of(cell.settings)
        if cell.scenario.deployment.alone:
            self.broker.become({**besides(settings), **cell.scenario.broker_settings})
        self.broker.place(cell.key, namespace_of(settings))
        to_topic = cell.scenario.pipeline.to_topic
        return CellRun(
            cell,
            history,
            parts_of(
                cell,
                directory,
                history,
                broker=self.broker,
                setup=self._clients.get(cell.client),
                to_queue=(lambda scene: TopicSink(scene, self.broker)) if to_topic else None,
            ),
        )

    def check(self) -> None:
        """Raise EnvironmentFailure if the guardian or the wire died by itself."""
        self.broker.check()

    def close(self) -> None:
        """Stop the broker and the wire."""
        self.broker.close()
