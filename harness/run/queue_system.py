"""A broker of queues as a system under test: its installation, and its deployments with lostack's
own stages.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from harness.model.cell import client_name
from harness.model.scenario import Deployment
from harness.protocols.amqp import steps as amqp
from harness.protocols.core import steps as core
from harness.protocols.openwire import steps as openwire
from harness.protocols.stomp import steps as stomp
from harness.provision.clients import ClientSetup, prepare_client
from harness.run.cell import CellRun
from harness.run.lacking import fetched_by_client
from harness.run.queue_server import Product, QueueServer
from harness.run.queues import parts_of
from harness.run.runtimes import PROCESSES, prepare_runtimes
from harness.stages.clients import AMQP, CORE, OPENWIRE, STOMP_PY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.model.history import HistoryWriter
    from harness.protocols.acts import Act
    from harness.provision.server import Install
    from harness.wire.rules import StepName


CLIENTS: Final = {STOMP_PY: "stomp", OPENWIRE: "openwire", AMQP: "amqp", CORE: "core"}
"""The protocol of each client."""
ACTS: Final[Mapping[str, Mapping[Act, StepName]]] = {
    "amqp": amqp.ACTS,
    "core": core.ACTS,
    "openwire": openwire.ACTS,
    "stomp": stomp.ACTS,
}
"""For each protocol: the step of the protocol that each act means."""


@dataclass(frozen=True, slots=True)
class Refusing:
    """Lets a broker refuse messages to one queue. Implements :class:`harness.abilities.Refusal`."""

    broker: QueueServer
    queue: str

    def refuse_next(self) -> None:
        """Let the broker refuse the next message that is sent to the queue."""
        self.broker.refuse_next(self.queue)


class QueueSystem:
    """A broker product as a system, in the runtime of that name. Implements
    :class:`harness.interfaces.Launcher`.
    """

    def __init__(
        self, product: Product, version: str | None = None, runtime: str = "process"
    ) -> None:
        """``version``: one of the versions whose checksums lostack knows; null: the default."""
        self._product, self._version, self._runtime = product, version, runtime
        self.name = product.recipe.name if version is None else f"{product.recipe.name}=={version}"
        self._install: Install | None = None
        self._runtimes = PROCESSES
        self._clients: dict[str, ClientSetup] = {}
        self.settings: Mapping[str, str] = {}
        """Settings of a user for the brokers."""

    def prepare(self, say: Callable[[str], None]) -> None:
        """Fetch Java, the jars and the compiler, compile the broker's main class, build images;
        skip what is there already.
        """
        self._runtimes = prepare_runtimes(self._runtime, say)
        self._install = self._product.recipe.ensure(say, self._version)

    def prepare_for(self, cells: Iterable[Cell], say: Callable[[str], None]) -> dict[str, str]:
        """Fetch the clients that these cells use. Return which cells cannot have theirs."""
        self._clients = {}
        return fetched_by_client(cells, partial(self._bring, say))

    def _bring(self, say: Callable[[str], None], client: str) -> None:
        self._clients[client] = self._runtimes.fit(prepare_client(client, say))

    def deploy(self, need: Deployment, directory: Path) -> QueueDeployed:
        """Start a broker with its wire, and wait until it answers.

        Raises:
            RuntimeError: :meth:`prepare` was not called.
        """
        if self._install is None:
            raise RuntimeError("prepare() comes first")
        broker = QueueServer(self._product, self._install, directory, self._runtimes, self.settings)
        if need is Deployment.TRACED:
            broker.trace_writes(broker.data)
        try:
            broker.start()
        except BaseException:
            broker.close()
            raise
        return QueueDeployed(broker, self._clients)

    def versions(self) -> dict[str, str]:
        """Return the versions of the broker, its clients, Java and Python."""
        found = {
            client.partition("==")[0]: setup.version for client, setup in self._clients.items()
        }
        if self._install is not None:
            found |= {self.name: self._install.version, "java": self._install.java_version}
        return found | {"python": sys.version.split()[0]} | self._runtimes.versions()


class QueueDeployed:
    """A running broker with lostack's own stages. Safe to use from several threads,
    one per cell.
    """

    def __init__(self, broker: QueueServer, clients: Mapping[str, ClientSetup]) -> None:
        self.broker = broker
        self._clients = clients

    def together(self, cells: Sequence[Cell]) -> None:
        """Do nothing: cells of this system never share one death of the broker."""

    def cell_run(self, cell: Cell, directory: Path, history: HistoryWriter) -> CellRun:
        """Return the run of one cell."""
        if cell.scenario.deployment.alone:
            self.broker.become(cell.scenario.broker_settings)
        protocol = CLIENTS[client_name(cell.client)]
        return CellRun(
            cell,
            history,
            parts_of(
                cell,
                directory,
                history,
                broker=self.broker.speaking(protocol),
                setup=self._clients.get(cell.client),
                words=ACTS[protocol],
                abilities=lambda queue: self.broker.abilities(queue.name),
            ),
        )

    def check(self) -> None:
        """Raise EnvironmentFailure if the guardian or the wire has died by itself."""
        self.broker.check()

    def close(self) -> None:
        """End broker and wire."""
        self.broker.close()
