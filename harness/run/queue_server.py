"""A broker of queues in a node of its own, behind its wire. lostack's main class starts it, and
also listens on a control port.

The control port takes lines of words (``hello``, ``count QUEUE``, ``journal QUEUE DEAD-LETTERS``;
all commands are in ``Queues.java``): see :mod:`harness.run.control_port`.
"""

from __future__ import annotations

import copy
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.model.failures import EnvironmentFailure
from harness.model.scenario import Role
from harness.provision.certificates import private
from harness.provision.network import argument_file
from harness.run.control_port import ControlPort
from harness.run.queue_broker import BROKER, Count, Message
from harness.run.runtimes import PROCESSES
from harness.run.served import ServedBroker
from harness.stages.clients import PRELOADS, STOMP_PY
from harness.wire.messages import Route

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from harness.provision.server import Install, Recipe
    from harness.run.queue_journal import Entry
    from harness.run.runtimes import Runtimes
    from harness.runtimes.interface import NodeSpec

ROLES: Final = (Role.PRODUCER, Role.CONSUMER)
ANSWER_S: Final = 20.0
STOMP: Final = "stomp"
PREFIX: Final = "/queue/"
"""The prefix of a queue's name in STOMP."""
DEAD_LETTERS: Final = "DLQ."
SETTING: Final = "lostack.setting."
"""The prefix of a user's setting among the properties of the broker's JVM."""


@dataclass(frozen=True, slots=True)
class Product:
    """A broker product: how to install it, the protocols that it speaks, and how to read its
    journal.
    """

    title: str
    recipe: Recipe
    messages: Callable[[Iterable[Entry], str, str], tuple[Message, ...]]
    """Returns the copies that a queue has had, from the journal's entries about it and its dead
    letters. May raise OSError.
    """
    connectors: Mapping[str, str]
    """The broker's listening address for each protocol, with ``{host}`` and ``{port}`` to be filled
    in.
    """
    called: Callable[[str], str] = str
    """Turns the name by which a client knows a copy into the journal's name of the copy."""
    abilities: Callable[[QueueServer, str], Mapping[type, object]] = lambda _broker, _queue: {}
    """Returns what faults can ask of a running broker about a queue."""


class QueueServer(ServedBroker):
    """A running broker of queues, seen by clients of one protocol: ``protocol``, by default STOMP.

    Implements :class:`harness.run.queue_broker.QueueBroker`.
    """

    def __init__(
        self,
        product: Product,
        install: Install,
        directory: Path,
        runtimes: Runtimes = PROCESSES,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """``settings``: a user's, by the names that the broker has for them."""
        self._settings = dict(settings or {})
        self._version = f"{product.title} {install.version}"
        self._product = product
        self._program = runtimes.fit(install.program)
        self.protocol = STOMP
        spoken = [
            each
            for each in product.connectors
            if each not in product.recipe.beside or each in install.beside
        ]
        ways = [(role, protocol) for protocol in spoken for role in ROLES]
        super().__init__(directory, 1 + len(spoken) + len(ways), runtimes)
        control, *others = self.ports
        self._control = ControlPort(control, ANSWER_S)
        self._direct = dict(zip(spoken, others, strict=False))
        self._ports = dict(zip(ways, others[len(spoken) :], strict=True))

    def speaking(self, protocol: str) -> QueueServer:
        """Return the same broker, seen by clients of another protocol.

        Raises:
            EnvironmentFailure: this version does not speak it, as far as lostack has its jars.
        """
        if protocol not in self._direct:
            raise EnvironmentFailure(
                f"lostack has no jars with which {self._version} speaks {protocol}"
            )
        found = copy.copy(self)
        found.protocol = protocol
        return found

    def start(self) -> None:
        """Start wire and broker, and wait until the broker answers.

        Raises:
            EnvironmentFailure: the broker does not come up.
        """
        self.runtime.expect(PRELOADS[STOMP_PY])
        super().start()

    def routes(self) -> Sequence[Route]:
        """Return the routes through the broker's wire: one for each role and protocol."""
        return [
            Route(
                f"{role}-{protocol}",
                BROKER,
                role,
                port,
                self._direct[protocol],
                self.runtime.bind,
                self.runtime.address(BROKER),
                protocol=protocol,
            )
            for (role, protocol), port in self._ports.items()
        ]

    def spec(self) -> NodeSpec:
        """Return how to start the broker's process, on its existing data."""
        host, data = self.runtime.bind, str(self.data.absolute())
        connectors = (
            self._product.connectors[name].format(host=host, port=port)
            for name, port in self._direct.items()
        )
        control = self._control
        settings = self._settings | dict(self.told)
        if settings:
            self._options.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            told = (f"-D{SETTING}{name}={value}" for name, value in settings.items())
            private(self._options, argument_file([*told]).encode())
        return self.on_jars(
            self._program,
            control.number,
            "broker",
            data,
            f"{host}:{control.number}",
            *connectors,
            flags=(f"@{self._options}",) if settings else (),
            env=control.environment,
        )

    def close(self) -> None:
        """End broker and wire, and remove the file with a user's settings. Safe to call twice."""
        super().close()
        shutil.rmtree(self._options.parent, ignore_errors=True)

    @property
    def _options(self) -> Path:
        """The file with a user's settings. They may be secret, and everybody on this machine can
        read a command line.
        """
        return (self._directory / "secrets" / "java.options").absolute()

    def answers(self) -> bool:
        """Say whether the broker's control port answers.

        Raises:
            OSError: the control port cannot be reached.
        """
        return bool(self.ask("hello"))

    def address(self, role: Role) -> str:
        """Return the address at which programs of a role connect: the wire's."""
        return f"{self.runtime.address('wire')}:{self._ports[role, self.protocol]}"

    @property
    def data(self) -> Path:
        """The folder of the broker's data."""
        return self._directory / "data"

    @property
    def direct(self) -> str:
        """The broker's own address, past the wire."""
        return f"127.0.0.1:{self._direct[self.protocol]}"

    def queue(self, name: str) -> str:
        """Return a queue's name as clients write it: STOMP needs the prefix ``/queue/``."""
        return f"{PREFIX}{name}" if self.protocol == STOMP else name

    def dead_letters(self, queue: str) -> str:
        """Return the name of the queue for its dead letters, as clients write it."""
        return self.queue(DEAD_LETTERS + queue.removeprefix(PREFIX))

    def abilities(self, queue: str) -> Mapping[type, object]:
        """Return what faults can ask of this broker about a queue."""
        return self._product.abilities(self, queue.removeprefix(PREFIX))

    def messages(self, queue: str) -> tuple[Message, ...]:
        """Return every copy that a queue has had, read from the journal's files, not through the
        broker's message store.
        """
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
        """Let the broker refuse the next message that is sent to a queue, once.

        Raises:
            OSError: the broker does not answer, or cannot do that.
        """
        self.ask("refuse", queue.removeprefix(PREFIX))

    def ask(self, *words: str) -> list[Entry]:
        """Send a command to the broker's control port; return the objects in its answer.

        Raises:
            OSError: the broker does not answer, or cannot do that.
        """
        try:
            return self._control.ask(*words)
        except OSError as error:
            raise OSError(f"{BROKER}: {error}") from error
