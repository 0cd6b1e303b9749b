"""A system of one broker of queues: a subclass says what is fetched, and how a broker is made; the
cells, with lostack's own stages, are made here.
"""

from __future__ import annotations

import importlib.metadata
import sys
from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

from harness.model.cell import client_name
from harness.model.failures import EnvironmentFailure
from harness.provision.clients import ClientSetup, prepare_client
from harness.run.cell import CellRun
from harness.run.clients import brought_adapter
from harness.run.lacking import fetched_by_client
from harness.run.queue_broker import QueueBroker
from harness.run.queue_parts import parts_of
from harness.run.queue_served import QueueServed
from harness.run.runtimes import PROCESSES
from harness.stages.clients import preloads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.model.history import HistoryWriter
    from harness.model.scenario import Deployment
    from harness.protocols.acts import Act
    from harness.provision.wheels import WheelServer
    from harness.run.queue_broker import Results
    from harness.run.queues import Queue
    from harness.run.scene import CellScene
    from harness.wire.rules import StepName


class LaunchedBroker(QueueBroker, Protocol):
    """A broker of queues that is started and ended with its wire."""

    @property
    def data(self) -> Path:
        """The folder of its data."""

    def trace_writes(self, folder: Path) -> None:
        """Note from its start on what it tells the kernel to flush below a folder."""

    def start(self) -> None:
        """Start broker and wire, and wait until the broker answers."""

    def become(self, told: Mapping[str, str]) -> None:
        """Use a cell's settings; restart the broker if they differ from the present ones."""

    def check(self) -> None:
        """Raise EnvironmentFailure if the guardian or the wire has died by itself."""

    def close(self) -> None:
        """End broker and wire."""


B = TypeVar("B", bound=LaunchedBroker)


class BrokerLauncher(ABC, Generic[B]):
    """A system of one broker of queues: its cells are made here. Implements
    :class:`harness.interfaces.Launcher`.
    """

    words: ClassVar[Mapping[Act, StepName] | None] = None
    """The step of the clients' protocol that each act means; ``None``: its scenarios name steps."""

    def __init__(self, runtime: str = "process", version: str | None = None) -> None:
        """``version``: one that can be chosen besides the default one; ``None``: the default."""
        self.version = version
        self.runtime = runtime
        self.runtimes = PROCESSES
        """What makes the runtime of each deployment."""
        self.settings: Mapping[str, str] = {}
        """Settings of a user for the brokers, by the broker's names for them."""
        self._clients: dict[str, ClientSetup] = {}

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the system, or ``name==version`` if a version was chosen."""

    @abstractmethod
    def prepare(self, say: Callable[[str], None]) -> None:
        """Fetch what the broker is started from, unless it is there.

        Raises:
            EnvironmentFailure: it cannot be fetched.
        """

    @abstractmethod
    def broker(self, directory: Path) -> B:
        """Return a broker that is not started yet. Its files and logs go below ``directory``."""

    def cluster(self, directory: Path) -> B:
        """Return a broker of three servers that is not started yet, for scenarios that need one:
        it is :class:`~harness.run.queue_broker.Replicates`.
        """
        raise NotImplementedError(f"{self.name} has no cluster")

    @abstractmethod
    def own_versions(self) -> Mapping[str, str]:
        """Return the versions of what :meth:`prepare` has fetched; empty before that."""

    def abilities(self, broker: B, queue: Queue) -> Mapping[type, object]:  # noqa: ARG002 - for those that have some
        """Return what faults can ask of a running broker about a queue: nothing."""
        return {}

    def settings_of(self, cell: Cell) -> Mapping[str, str]:
        """Return the broker's settings in a cell that has the broker for itself."""
        return cell.scenario.broker_settings

    def seen(self, broker: B, cell: Cell) -> B:  # noqa: ARG002 - for those that speak several
        """Return a broker as the client of a cell sees it."""
        return broker

    def written(self, queue: str, cell: Cell) -> str:  # noqa: ARG002 - for those with two names
        """Return a queue's name as lostack's own stages write it: the same."""
        return queue

    def words_of(self, cell: Cell) -> Mapping[Act, StepName] | None:  # noqa: ARG002 - for those that differ
        """Return the step that each act means in a cell: that of :attr:`words`."""
        return self.words

    def to_queue(
        self,
        cell: Cell,  # noqa: ARG002 - for those that have such a pipeline
        broker: B,  # noqa: ARG002
    ) -> Callable[[CellScene], Results] | None:
        """Return what makes the results' queue of a cell whose processor sends its results to one;
        ``None``: a consumer records them in a database.
        """
        return None

    def prepare_for(self, cells: Iterable[Cell], say: Callable[[str], None]) -> dict[str, str]:
        """Fetch the clients that these cells use. Return which cells cannot have theirs."""
        self._clients = {}
        return fetched_by_client(cells, partial(self._bring, say))

    def _bring(self, say: Callable[[str], None], client: str) -> None:
        self._clients[client] = self.runtimes.fit(self.client(client, say))

    def client(self, client: str, say: Callable[[str], None]) -> ClientSetup:
        """Fetch a client.

        Raises:
            EnvironmentFailure: it cannot be fetched.
        """
        return prepare_client(client, say)

    def deploy(self, need: Deployment, directory: Path) -> QueueDeployment[B]:
        """Start a broker with its wire, and wait until it answers."""
        broker = self.cluster(directory) if need.clustered else self.broker(directory)
        if need.traced:
            broker.trace_writes(broker.data)
        self.expect(broker)
        try:
            broker.start()
        except BaseException:
            broker.close()
            raise
        return QueueDeployment(self, broker, self._clients)

    def expect(self, broker: B) -> None:
        """Tell the broker's runtime which programs will come."""

    def versions(self) -> dict[str, str]:
        """Return the versions of the broker, its clients and Python."""
        clients = {client_name(name): setup.version for name, setup in self._clients.items()}
        python = {"python": sys.version.split()[0]}
        return {**clients, **self.own_versions(), **python, **self.runtimes.versions()}


class QueueLauncher(BrokerLauncher[QueueServed]):
    """A system of one broker of queues, in processes of this machine. A package's
    :attr:`~harness.interfaces.System.launcher` is a subclass.
    """

    words: ClassVar[Mapping[Act, StepName]]
    """The step of the clients' protocol that each act means."""

    def client(self, client: str, say: Callable[[str], None]) -> ClientSetup:
        """Return a client, which a package may bring.

        Raises:
            EnvironmentFailure: the client is not installed, or nobody brings it.
        """
        brought_adapter(client_name(client))
        try:
            return prepare_client(client, say)
        except importlib.metadata.PackageNotFoundError:
            raise EnvironmentFailure(
                f"the client {client} is not installed: pip install {client}"
            ) from None

    def expect(self, broker: QueueServed) -> None:
        """Let the broker's runtime import the clients once."""
        for client in self._clients:
            name = client_name(client)
            broker.runtime.expect(preloads(name, brought_adapter(name)))


class WheelLauncher(QueueLauncher):
    """A system whose server comes in a wheel."""

    called: ClassVar[str]
    """The name of the system."""
    server: ClassVar[WheelServer]

    def __init__(self, runtime: str = "process", version: str | None = None) -> None:
        super().__init__(runtime, version)
        self._program: Path | None = None

    @property
    def name(self) -> str:
        """The name of the system, with the version if one was chosen."""
        return self.called if self.version is None else f"{self.called}=={self.version}"

    def prepare(self, say: Callable[[str], None]) -> None:
        """Fetch the server, unless it is there."""
        self._program = self.server.ensure(say, self.version)

    @property
    def program(self) -> Path:
        """The server's program.

        Raises:
            RuntimeError: :meth:`prepare` was not called.
        """
        if self._program is None:
            raise RuntimeError("prepare() comes first")
        return self._program

    def own_versions(self) -> Mapping[str, str]:
        """Return the version of the server, if it is there."""
        return {} if self._program is None else {self.name: self.version or self.server.version}


class QueueDeployment(Generic[B]):
    """A running broker with lostack's own stages. Safe to use from several threads, one per cell.
    Implements :class:`harness.interfaces.Deployed`.
    """

    def __init__(
        self, launcher: BrokerLauncher[B], broker: B, clients: Mapping[str, ClientSetup]
    ) -> None:
        self.broker = broker
        self._launcher = launcher
        self._clients = clients

    def together(self, cells: Sequence[Cell]) -> None:
        """Do nothing: cells never share one death of the broker."""

    def cell_run(self, cell: Cell, directory: Path, history: HistoryWriter) -> CellRun:
        """Return the run of one cell."""
        if not cell.scenario.deployment.shared:
            self.broker.become(self._launcher.settings_of(cell))

        def abilities(queue: Queue) -> Mapping[type, object]:
            return self._launcher.abilities(self.broker, queue)

        parts = parts_of(
            cell,
            directory,
            history,
            broker=self._launcher.seen(self.broker, cell),
            setup=self._clients.get(cell.client),
            to_queue=self._launcher.to_queue(cell, self.broker),
            words=self._launcher.words_of(cell),
            written=lambda queue: self._launcher.written(queue, cell),
            abilities=abilities,
        )
        return CellRun(cell, history, parts)

    def check(self) -> None:
        """Raise EnvironmentFailure if the guardian or the wire has died by itself."""
        self.broker.check()

    def close(self) -> None:
        """End broker and wire."""
        self.broker.close()
