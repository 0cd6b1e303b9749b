"""A broker of queues in a node of its own, behind its wire: a main class of ours, which answers on a control port, too.

Its control port takes a line of words (``hello``, ``count QUEUE``, ``journal QUEUE DEAD-LETTERS``; what else one can be told
to do stands in ``Queues.java``), and answers with lines of JSON and an empty one.
"""

from __future__ import annotations

import copy
import json
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from harness.model.scenario import Role
from harness.run.queues import BROKER, Count, Message
from harness.run.runtimes import PROCESSES
from harness.run.served import ServedBroker
from harness.stages.clients import PRELOADS, STOMP_PY
from harness.wire.messages import Route

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from harness.provision.server import Install, Recipe
    from harness.run.runtimes import Runtimes
    from harness.runtimes.interface import NodeSpec

ROLES: Final = (Role.PRODUCER, Role.CONSUMER)
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
    """The address that it listens to, by protocol; ``{host}`` and ``{port}`` stand for where that is."""
    called: Callable[[str], str] = str
    """What the journal calls a copy, by what a client was told that it is called."""
    abilities: Callable[[QueueServer, str], Mapping[type, object]] = lambda _broker, _queue: {}
    """What faults can ask of a running broker about a queue."""


class QueueServer(ServedBroker):
    """Implements :class:`harness.run.queues.QueueBroker`, as a client finds it that speaks ``protocol``.

    That is STOMP, unless somebody asks for another.
    """

    def __init__(self, product: Product, install: Install, directory: Path, runtimes: Runtimes = PROCESSES) -> None:
        self._product = product
        self._program = runtimes.fit(install.program)
        self.protocol = STOMP
        spoken = [each for each in product.connectors if each not in product.recipe.beside or each in install.beside]
        ways = [(role, protocol) for protocol in spoken for role in ROLES]
        super().__init__(directory, 1 + len(spoken) + len(ways), runtimes)
        self._control, *others = self.ports
        self._direct = dict(zip(spoken, others, strict=False))
        self._ports = dict(zip(ways, others[len(spoken) :], strict=True))

    def speaking(self, protocol: str) -> QueueServer:
        """Return the same broker, as a client finds it that speaks another protocol."""
        found = copy.copy(self)
        found.protocol = protocol
        return found

    def start(self) -> None:
        """Start wire and broker; it is there when it has answered.

        Raises:
            EnvironmentFailure: the broker does not come up.
        """
        self.runtime.expect(PRELOADS[STOMP_PY])
        super().start()

    def routes(self) -> Sequence[Route]:
        """Return the ways through its wire: for each role one by each protocol."""
        return [
            Route(f"{role}-{protocol}", BROKER, role, port, self._direct[protocol], self.runtime.bind,
                  self.runtime.address(BROKER), protocol=protocol) for (role, protocol), port in self._ports.items()
        ]  # fmt: skip

    def spec(self) -> NodeSpec:
        """Return how its process is started, on the data that there is."""
        host, data = self.runtime.bind, str(self.data.absolute())
        connectors = (self._product.connectors[name].format(host=host, port=port) for name, port in self._direct.items())
        return self.on_jars(self._program, self._control, "broker", data, f"{host}:{self._control}", *connectors)

    def answers(self) -> bool:
        """Say whether its control port answers.

        Raises:
            OSError: it cannot be asked.
        """
        return bool(self.ask("hello"))

    def address(self, role: Role) -> str:
        """Return where programs of a role find it: the wire."""
        return f"{self.runtime.address('wire')}:{self._ports[role, self.protocol]}"

    @property
    def data(self) -> Path:
        """The folder with what it keeps."""
        return self._directory / "data"

    @property
    def direct(self) -> str:
        """Where it is found past the wire."""
        return f"127.0.0.1:{self._direct[self.protocol]}"

    def queue(self, name: str) -> str:
        """Return a queue as its clients call it: only STOMP says what it is."""
        return f"{PREFIX}{name}" if self.protocol == STOMP else name

    def dead_letters(self, queue: str) -> str:
        """Return where its dead letters are put."""
        return self.queue(DEAD_LETTERS + queue.removeprefix(PREFIX))

    def abilities(self, queue: str) -> Mapping[type, object]:
        """Return what faults can ask of it about a queue."""
        return self._product.abilities(self, queue.removeprefix(PREFIX))

    def messages(self, queue: str) -> tuple[Message, ...]:
        """Return every copy that a queue has had, as the journal says: its files, read past the broker's own store."""
        name = queue.removeprefix(PREFIX)
        aside = DEAD_LETTERS + name.removeprefix(DEAD_LETTERS)
        return self._product.messages(self.ask("journal", name, aside), name, aside)

    def called(self, name: str) -> str:
        """Return the journal's name of a message, by the name that clients are told."""
        return self._product.called(name)

    def count(self, queue: str) -> Count:
        """Return how many messages wait in a queue, as the broker's statistics say."""
        [said] = self.ask("count", queue.removeprefix(PREFIX))
        return Count(said["messages"] - said["in_flight"], said["in_flight"])

    def refuse_next(self, queue: str) -> None:
        """Let it refuse the next message that is sent to a queue, once.

        Raises:
            OSError: it cannot be told.
        """
        self.ask("refuse", queue.removeprefix(PREFIX))

    def ask(self, *words: str) -> list[dict[str, Any]]:
        """Ask the broker's control port; return the objects that it answers with.

        Raises:
            OSError: it does not answer, or it cannot do that.
        """
        with socket.create_connection((HOST, self._control), timeout=ANSWER_S) as client, client.makefile("rw") as talk:
            talk.write(" ".join(words) + "\n")
            talk.flush()
            said = []
            while line := talk.readline():
                if not line.strip():
                    break
                said.append(json.loads(line))
            else:  # in a container also where nobody listens yet: the engine takes the connection
                raise OSError(f"{BROKER}, asked for {words[0]}: it hung up")
        if said and "error" in said[0]:
            raise OSError(f"{BROKER}, asked for {words[0]}: {said[0]['error']}")
        return said
