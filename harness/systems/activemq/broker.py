"""A running broker of ActiveMQ Classic behind its wire. Implements :class:`harness.run.queues.QueueBroker`."""

from __future__ import annotations

import json
import socket
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
from harness.systems.activemq.journal import messages
from harness.wire.messages import Route

if TYPE_CHECKING:
    from pathlib import Path

    from harness.run.wire import RunningWire
    from harness.runtimes.interface import Exit, Node
    from harness.systems.activemq.install import Install
    from harness.wire.control import WireControl

ROLES: Final = (Role.PRODUCER, Role.CONSUMER)
START_S: Final = 60.0
ANSWER_S: Final = 20.0
PREFIX: Final = "/queue/"
"""How STOMP names a queue here."""
DEAD_LETTERS: Final = "DLQ."
HOST: Final = "127.0.0.1"


class ClassicBroker:
    """A broker, its wire, and what they run in. Safe to use from several threads, one per cell. Whoever asks may see OSError."""

    def __init__(self, install: Install, directory: Path) -> None:
        self.runtime = ProcessRuntime(directory=directory)
        self._install = install
        self._directory = directory
        self._lease = PortLease(3 + len(ROLES))
        self._stomp, self._control, self._wire_control, *others = self._lease.ports
        self._ports = dict(zip(ROLES, others, strict=True))
        self._wire: RunningWire | None = None
        self._node: Node | None = None

    @property
    def wire(self) -> WireControl:
        """The wire's control."""
        if self._wire is None:
            raise RuntimeError("the wire is not up")
        return self._wire.control

    def start(self) -> None:
        """Start wire and broker; it is there when it has answered."""
        routes = [
            Route(role, BROKER, role, self._ports[role], self._stomp, self.runtime.bind, self.runtime.address(BROKER),
                  protocol="stomp") for role in ROLES
        ]  # fmt: skip
        self._wire = start_wire(self.runtime, self._directory, self._wire_control, routes)
        self._launch()
        self.runtime.expect(PRELOADS[STOMP_PY])  # while the broker starts
        self._await_answer()

    def address(self, role: Role) -> str:
        """Return where programs of a role find it: the wire."""
        return f"{self.runtime.address('wire')}:{self._ports[role]}"

    @property
    def direct(self) -> str:
        """Where it is found past the wire."""
        return f"127.0.0.1:{self._stomp}"

    @property
    def wire_node(self) -> Node:
        """The wire's process."""
        if self._wire is None:
            raise RuntimeError("the wire is not up")
        return self._wire.node

    def queue(self, key: str) -> str:
        """Return the queue of a cell."""
        return f"{PREFIX}{key}.in"

    def dead_letters(self, queue: str) -> str:
        """Return where its dead letters are put."""
        return f"{PREFIX}{DEAD_LETTERS}{queue.removeprefix(PREFIX)}"

    def messages(self, queue: str) -> tuple[Message, ...]:
        """Return every copy that a queue has had, as the journal says: its files, read past the broker's own store."""
        name = queue.removeprefix(PREFIX)
        aside = DEAD_LETTERS + name.removeprefix(DEAD_LETTERS)
        return messages(self._ask("journal", name, aside), name, aside)

    def count(self, queue: str) -> Count:
        """Return how many messages wait in a queue, as the broker's statistics say."""
        [said] = self._ask("count", queue.removeprefix(PREFIX))
        return Count(said["messages"] - said["in_flight"], said["in_flight"])

    def process(self) -> Node:
        """Its process, dead or alive."""
        if self._node is None:
            raise RuntimeError("the broker was never started")
        return self._node

    def kill(self) -> Exit:
        """SIGKILL it; the wire refuses connections until it is back."""
        end = self.process().kill()
        for role in ROLES:
            self.wire.close_route(role)
        return end

    def restart(self) -> None:
        """Start it again on the same data; the wire connects again once it has answered."""
        self._launch()
        self._await_answer()
        for role in ROLES:
            self.wire.open_route(role)

    def check(self) -> None:
        """Raise EnvironmentFailure where guardian or wire have died by themselves."""
        self.runtime.check()
        if self._wire is not None:
            self._wire.check()

    def close(self) -> None:
        """End everything. Safe to call twice, and of one that never came up."""
        if self._wire is not None:
            self._wire.close()
        self.runtime.close()
        self._lease.close()

    # -- inside -----------------------------------------------------------------------------------------------------------

    def _launch(self) -> None:
        words = ("broker", str((self._directory / "data").absolute()), str(self._stomp), str(self._control))
        self._node = self.runtime.start(NodeSpec(
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
