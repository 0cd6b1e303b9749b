"""ActiveMQ Classic as a system under test: what it is started from, and a deployment of it with our own stages around."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from harness.model.failures import EnvironmentFailure
from harness.model.waiting import WaitTimeoutError
from harness.provision.clients import ClientSetup, prepare_client
from harness.run.cell import CellRun
from harness.run.queues import parts_of
from harness.systems.activemq.broker import ClassicBroker
from harness.systems.activemq.install import VERSION, Install, ensure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.model.history import HistoryWriter
    from harness.model.scenario import Deployment


class ActiveMQ:
    """ActiveMQ Classic, as a process of this machine. Implements :class:`harness.interfaces.Launcher`."""

    name = "activemq"

    def __init__(self, _runtime: str = "process", version: str | None = None) -> None:
        """``version``: another one than the default, of those whose sums are known."""
        self._version = version or VERSION
        if version is not None:
            self.name = f"{self.name}=={version}"
        self._install: Install | None = None
        self._clients: dict[str, ClientSetup] = {}

    def prepare(self, say: Callable[[str], None]) -> None:
        """Fetch Java, the jars and the compiler, and compile the broker's main class, where that is not there yet."""
        self._install = ensure(say, self._version)

    def prepare_for(self, cells: Iterable[Cell], say: Callable[[str], None]) -> None:
        """Fetch the clients that these cells are driven through."""
        self._clients = {client: prepare_client(client, say) for client in sorted({cell.client for cell in cells})}

    def deploy(self, need: Deployment, directory: Path) -> ActiveMQDeployed:
        """Start a broker with its wire; ready when it has answered."""
        del need  # there is one broker in each of its deployments
        if self._install is None:
            raise RuntimeError("prepare() comes first")
        broker = ClassicBroker(self._install, directory)
        try:
            broker.start()
        except WaitTimeoutError as error:
            broker.close()
            raise EnvironmentFailure(f"ActiveMQ did not come up: {error}; its logs: {directory}") from error
        except BaseException:
            broker.close()
            raise
        return ActiveMQDeployed(broker, self._clients)

    def versions(self) -> dict[str, str]:
        """ActiveMQ, its clients, Java and Python."""
        found = {client.partition("==")[0]: setup.version for client, setup in self._clients.items()}
        if self._install is not None:
            found |= {self.name: self._install.version, "java": self._install.java_version}
        return found | {"python": sys.version.split()[0]}


class ActiveMQDeployed:
    """A running broker, and our own stages around it. Safe to use from several threads, one per cell."""

    def __init__(self, broker: ClassicBroker, clients: Mapping[str, ClientSetup]) -> None:
        self.broker = broker
        self._clients = clients

    def together(self, cells: Sequence[Cell]) -> None:
        """Its cells share no death."""

    def cell_run(self, cell: Cell, directory: Path, history: HistoryWriter) -> CellRun:
        """Return the run of one cell."""
        return CellRun(
            cell, history, parts_of(cell, directory, history, broker=self.broker, setup=self._clients.get(cell.client))
        )

    def check(self) -> None:
        """Raise EnvironmentFailure where guardian or wire have died by themselves."""
        self.broker.check()

    def close(self) -> None:
        """End everything."""
        self.broker.close()
