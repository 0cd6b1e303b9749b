"""A broker of queues in a process of its own, behind its wire: a main class of ours, which answers on a control port, too.

Its control port takes a line of words (``hello``, ``count QUEUE``, ``journal QUEUE DEAD-LETTERS``) and answers with lines of JSON
and an empty one.
"""

from __future__ import annotations

import copy
import json
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from harness.model.failures import EnvironmentFailure
from harness.model.scenario import Role
from harness.model.waiting import wait_until
from harness.run.queues import BROKER, Count, Message
from harness.run.wire import start_wire
from harness.runtimes.interface import NodeSpec
from harness.runtimes.ports import PortLease
from harness.runtimes.process.runtime import ProcessRuntime
from harness.stages.clients import PRELOADS, STOMP_PY
from harness.wire.messages import Route

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from harness.provision.server import Install, Recipe
    from harness.run.wire import RunningWire
    from harness.runtimes.interface import Exit, Node
    from harness.wire.control import WireControl

ROLES: Final = (Role.PRODUCER, Role.CONSUMER)
START_S: Final = 60.0
ANSWER_S: Final = 20.0
STOMP: Final = "stomp"
PREFIX: Final = "/queue/"
"""How STOMP names a queue here."""
DEAD_LETTERS: Final = "DLQ."
HOST: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Product:
    """A broker as its makers deliver it, and how its journal is read."""

    title: str
    recipe: Recipe
    messages: Callable[[Iterable[dict[str, Any]], str, str], tuple[Message, ...]]
    """Of the journal's entries about a queue and its dead letters, every copy that the queue has had. Raises OSError."""
    connectors: Mapping[str, str]
    """The address that it listens to, by protocol; ``{port}`` in it is the port."""
    called: Callable[[str], str] = str
    """What the journal calls a copy, by what a client was told that it is called."""


@dataclass
class _Running:
    """What of a broker is another when it has been restarted."""

    wire: RunningWire | None = None
    node: Node | None = None


def _route(role: Role, protocol: str) -> str:
    return f"{role}-{protocol}"


class QueueServer:
    """A broker, its wire, and what they run in. Implements :class:`harness.run.queues.QueueBroker`.

    It is as a client finds it that speaks ``protocol``: STOMP, unless somebody asks for another. Safe to use from several
    threads, one per cell. Whoever asks may see OSError.
    """

    def __init__(self, product: Product, install: Install, directory: Path) -> None:
        self._product = product
        self.runtime = ProcessRuntime(directory=directory)
        self._install = install
        self._directory = directory
        self.protocol = STOMP
        spoken = [each for each in product.connectors if each not in product.recipe.beside or each in install.beside]
        ways = [(role, protocol) for protocol in spoken for role in ROLES]
        self._lease = PortLease(2 + len(spoken) + len(ways))
        self._control, self._wire_control, *others = self._lease.ports
        self._direct = dict(zip(spoken, others, strict=False))
        self._ports = dict(zip(ways, others[len(spoken) :], strict=True))
        self._up = _Running()

    def speaking(self, protocol: str) -> QueueServer:
        """Return the same broker, as a client finds it that speaks another protocol."""
        found = copy.copy(self)
        found.protocol = protocol
        return found

    @property
    def wire(self) -> WireControl:
        """The wire's control."""
        if self._up.wire is None:
            raise RuntimeError("the wire is not up")
        return self._up.wire.control

    def start(self) -> None:
        """Start wire and broker; it is there when it has answered."""
        routes = [
            Route(_route(role, protocol), BROKER, role, port, self._direct[protocol], self.runtime.bind,
                  self.runtime.address(BROKER), protocol=protocol) for (role, protocol), port in self._ports.items()
        ]  # fmt: skip
        self._up.wire = start_wire(self.runtime, self._directory, self._wire_control, routes)
        self._launch()
        self.runtime.expect(PRELOADS[STOMP_PY])  # while the broker starts
        self._await_answer()

    def address(self, role: Role) -> str:
        """Return where programs of a role find it: the wire."""
        return f"{self.runtime.address('wire')}:{self._ports[role, self.protocol]}"

    @property
    def direct(self) -> str:
        """Where it is found past the wire."""
        return f"127.0.0.1:{self._direct[self.protocol]}"

    @property
    def wire_node(self) -> Node:
        """The wire's process."""
        if self._up.wire is None:
            raise RuntimeError("the wire is not up")
        return self._up.wire.node

    def queue(self, name: str) -> str:
        """Return a queue as its clients call it: only STOMP says what it is."""
        return f"{PREFIX}{name}" if self.protocol == STOMP else name

    def dead_letters(self, queue: str) -> str:
        """Return where its dead letters are put."""
        return self.queue(DEAD_LETTERS + queue.removeprefix(PREFIX))

    def messages(self, queue: str) -> tuple[Message, ...]:
        """Return every copy that a queue has had, as the journal says: its files, read past the broker's own store."""
        name = queue.removeprefix(PREFIX)
        aside = DEAD_LETTERS + name.removeprefix(DEAD_LETTERS)
        return self._product.messages(self._ask("journal", name, aside), name, aside)

    def called(self, name: str) -> str:
        """Return what the journal calls a copy, by what a client was told that it is called."""
        return self._product.called(name)

    def count(self, queue: str) -> Count:
        """Return how many messages wait in a queue, as the broker's statistics say."""
        [said] = self._ask("count", queue.removeprefix(PREFIX))
        return Count(said["messages"] - said["in_flight"], said["in_flight"])

    def process(self) -> Node:
        """Its process, dead or alive."""
        if self._up.node is None:
            raise RuntimeError("the broker was never started")
        return self._up.node

    def kill(self) -> Exit:
        """SIGKILL it; the wire refuses connections until it is back."""
        end = self.process().kill()
        for way in self._ports:
            self.wire.close_route(_route(*way))
        return end

    def restart(self) -> None:
        """Start it again on the same data; the wire connects again once it has answered."""
        self._launch()
        self._await_answer()
        for way in self._ports:
            self.wire.open_route(_route(*way))

    def check(self) -> None:
        """Raise EnvironmentFailure where guardian or wire have died by themselves."""
        self.runtime.check()
        if self._up.wire is not None:
            self._up.wire.check()

    def close(self) -> None:
        """End everything. Safe to call twice, and of one that never came up."""
        if self._up.wire is not None:
            self._up.wire.close()
        self.runtime.close()
        self._lease.close()

    # -- inside -----------------------------------------------------------------------------------------------------------

    def _launch(self) -> None:
        connectors = (self._product.connectors[name].format(port=port) for name, port in self._direct.items())
        words = ("broker", str((self._directory / "data").absolute()), str(self._control), *connectors)
        self._up.node = self.runtime.start(NodeSpec(
            name=BROKER, role=Role.BROKER, argv=(*self._install.command, *words), log=self._directory / f"{BROKER}.log"
        ))  # fmt: skip

    def _await_answer(self) -> None:
        wait_until(self._answers_or_died, within_s=START_S, because=f"{BROKER} to answer on port {self._control}")

    def _answers_or_died(self) -> bool:
        self.runtime.check()
        if (node := self.process()).exit is not None:
            raise EnvironmentFailure(f"{BROKER} ended at once ({node.exit}): {node.log_tail(3)}")
        try:
            return bool(self._ask("hello"))
        except OSError:
            return False

    def _ask(self, *words: str) -> list[dict[str, Any]]:
        """Ask the broker's control port; return the objects that it answers with. Raises OSError."""
        with socket.create_connection((HOST, self._control), timeout=ANSWER_S) as client, client.makefile("rw") as talk:
            talk.write(" ".join(words) + "\n")
            talk.flush()
            said = []
            while line := talk.readline().strip():
                said.append(json.loads(line))
        if said and "error" in said[0]:
            raise OSError(f"{BROKER}, asked for {words[0]}: {said[0]['error']}")
        return said
