"""A broker of queues that is made of jars, as a system under test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.model.cell import client_name
from harness.protocols.amqp import steps as amqp
from harness.protocols.core import steps as core
from harness.protocols.openwire import steps as openwire
from harness.protocols.stomp import steps as stomp
from harness.run.queue_launcher import BrokerLauncher
from harness.run.queue_server import Product, QueueServer
from harness.run.runtimes import prepare_runtimes
from harness.stages.clients import AMQP, CORE, OPENWIRE, STOMP_PY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.protocols.acts import Act
    from harness.provision.server import Install
    from harness.run.queues import Queue
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


class QueueSystem(BrokerLauncher[QueueServer]):
    """A broker product as a system, in the runtime of that name."""

    name = ""

    def __init__(
        self, product: Product, version: str | None = None, runtime: str = "process"
    ) -> None:
        """``version``: one of the versions whose checksums lostack knows; null: the default."""
        super().__init__(runtime, version)
        self.name = product.recipe.name if version is None else f"{product.recipe.name}=={version}"
        self._product = product
        self._install: Install | None = None

    def prepare(self, say: Callable[[str], None]) -> None:
        """Fetch Java, the jars and the compiler, compile the broker's main class, build images;
        skip what is there already.
        """
        self.runtimes = prepare_runtimes(self.runtime, say)
        self._install = self._product.recipe.ensure(say, self.version)

    def broker(self, directory: Path) -> QueueServer:
        """Return a broker that is not started yet.

        Raises:
            RuntimeError: :meth:`prepare` was not called.
        """
        if self._install is None:
            raise RuntimeError("prepare() comes first")
        return QueueServer(self._product, self._install, directory, self.runtimes, self.settings)

    def own_versions(self) -> Mapping[str, str]:
        """Return the versions of the broker and of Java."""
        found = self._install
        return {} if found is None else {self.name: found.version, "java": found.java_version}

    def seen(self, broker: QueueServer, cell: Cell) -> QueueServer:
        """Return the broker as it is for those who speak the protocol of a cell's client."""
        return broker.speaking(CLIENTS[client_name(cell.client)])

    def words_of(self, cell: Cell) -> Mapping[Act, StepName]:
        """Return the steps of the protocol of a cell's client."""
        return ACTS[CLIENTS[client_name(cell.client)]]

    def abilities(self, broker: QueueServer, queue: Queue) -> Mapping[type, object]:
        """Return what faults can ask of the broker about a queue."""
        return broker.abilities(queue.name)
