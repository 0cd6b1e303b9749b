"""The base for a package's broker of queues: one program with one port for its clients, each role
by a route of its own through the wire; or several such programs, a cluster.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final, Self

from harness.model.scenario import Role
from harness.run.queue_broker import BROKER, Count
from harness.run.served import ServedBroker
from harness.runtimes.interface import NodeSpec
from harness.wire.messages import Route

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from harness.run.queue_broker import Message

ROLES: Final = (Role.PRODUCER, Role.CONSUMER)


@dataclass(frozen=True, slots=True)
class Server:
    """One program of a broker. ``port``: for its clients; ``by_role``: the wire's ports in front of
    that; ``further``: others that it needs; ``data``: the folder of its data, which outlives it.
    ``beside``: ``port`` and ``by_role`` of each other protocol that it speaks.
    """

    name: str
    port: int
    by_role: Mapping[Role, int]
    further: tuple[int, ...]
    data: Path
    beside: Mapping[str, tuple[int, Mapping[Role, int]]] = field(default_factory=dict)

    def speaks(self, protocol: str) -> tuple[int, Mapping[Role, int]]:
        """Return its port for clients of a protocol, and the wire's ports in front of that."""
        return self.beside.get(protocol, (self.port, self.by_role))


NO_DEAD_LETTERS: Final = "lostack-no-dead-letters."
"""How the name of a queue begins that a broker without dead letters does not have."""


class QueueServed(ServedBroker):
    """A broker of queues in a node of its own. What is not abstract may be left as it is.

    Implements :class:`harness.run.queue_broker.QueueBroker`.
    """

    roles: ClassVar[tuple[Role, ...]] = ROLES
    """Those that connect to it, each by a route of its own."""
    protocol: str
    """What its clients speak: a name in the registry of protocols."""
    others: ClassVar[tuple[str, ...]] = ()
    """What it speaks besides, each on ports of its own."""

    def __init__(self, directory: Path, ports: int = 0, size: int = 1) -> None:
        """``ports``: how many further ports each program needs: :attr:`Server.further`; ``size``:
        how many programs it is.
        """
        of_one = 1 + len(self.roles)
        each = of_one * (1 + len(self.others)) + ports
        names = [f"{BROKER.removesuffix('1')}{number + 1}" for number in range(size)]
        super().__init__(directory, size * each, names=names)
        data = (directory / "data").absolute()
        self.data = data
        """The folder of the broker's data, which outlives its process; of several programs that
        with a folder for each.
        """
        self.servers = tuple(
            Server(
                name,
                port,
                dict(zip(self.roles, others, strict=False)),
                tuple(others[len(others) - ports :]),
                data if size == 1 else data / name,
                {
                    protocol: (first, dict(zip(self.roles, rest, strict=True)))
                    for protocol, (first, *rest) in zip(
                        self.others,
                        zip(*[iter(others[of_one - 1 :])] * of_one, strict=False),
                        strict=False,
                    )
                },
            )
            for name, (port, *others) in zip(
                names, zip(*[iter(self.ports)] * each, strict=True), strict=True
            )
        )
        self.port, self.further = self.servers[0].port, self.servers[0].further

    @abstractmethod
    def argv(self) -> Sequence[str]:
        """Return the command that starts the broker in the foreground on :attr:`port` of
        ``127.0.0.1``, on the data in :attr:`data`. It is the server itself, not a script around it.
        """

    def argv_of(self, server: Server) -> Sequence[str]:  # noqa: ARG002 - for clusters
        """Return the command of one program of a cluster."""
        return self.argv()

    @abstractmethod
    def messages(self, queue: str) -> Sequence[Message]:
        """Return every copy that a queue has had, from the broker's files or by a way past the
        wire. Each waits for something, or was removed or moved.
        """

    @abstractmethod
    def counted(self, queue: str) -> Count:
        """Return how many messages wait in a queue, as the broker itself says.

        Raises:
            OSError: the broker does not answer.
        """

    def environment(self) -> Mapping[str, str]:
        """Return the variables that the broker's process is started with."""
        return MappingProxyType({})

    def spec(self) -> NodeSpec:
        """Return how to start the broker's (first) process, on its existing data."""
        return self.spec_of(BROKER)

    def spec_of(self, name: str) -> NodeSpec:
        """Return how to start one of its processes, on its existing data."""
        return NodeSpec(
            name=name,
            role=Role.BROKER,
            argv=tuple(self.argv_of(self.server(name))),
            env=self.environment(),
            log=self._directory / f"{name}.log",
            cwd=self._directory.absolute(),
        )

    def server(self, name: str) -> Server:
        """Return the program of this name."""
        return next(each for each in self.servers if each.name == name)

    def start(self) -> None:
        """Start wire and broker, and wait until the broker answers.

        Raises:
            EnvironmentFailure: the broker does not come up.
        """
        for server in self.servers:
            server.data.mkdir(parents=True, exist_ok=True)
        super().start()

    def routes(self) -> Sequence[Route]:
        """Return a route through the broker's wire for each role, program and protocol."""
        several = len(self.servers) > 1
        return [
            Route(
                "-".join((role, *([server.name] * several), *([protocol] * (number > 0)))),
                server.name,
                role,
                port,
                server.speaks(protocol)[0],
                protocol=protocol,
            )
            for server in self.servers
            for number, protocol in enumerate((type(self).protocol, *self.others))
            for role, port in server.speaks(protocol)[1].items()
        ]

    def speaking(self, protocol: str) -> Self:
        """Return the same broker, seen by clients of another protocol that it speaks."""
        found = copy.copy(self)
        found.protocol = protocol
        return found

    def address(self, role: Role) -> str:
        """Return the address at which programs of a role connect: the wire's. Of a cluster, the
        addresses of its programs with commas between, the role's :meth:`home` first.
        """
        first = self.servers.index(self.home(role))
        here = self.runtime.address("wire")
        ordered = (*self.servers[first:], *self.servers[:first])
        return ",".join(f"{here}:{server.speaks(self.protocol)[1][role]}" for server in ordered)

    def home(self, role: Role) -> Server:
        """Return the program to which those of a role connect as long as it serves."""
        return self.servers[self.roles.index(role) % len(self.servers)]

    def queue(self, name: str) -> str:
        """Return a queue's name as clients write it: the same."""
        return name

    def dead_letters(self, queue: str) -> str:
        """Return a name that no queue has: there are no dead letters."""
        return f"{NO_DEAD_LETTERS}{queue}"

    def called(self, name: str) -> str | None:
        """Return the journal's name of a message, by the name that clients are told: the same."""
        return name

    def count(self, queue: str) -> Count:
        """Return how many messages wait in a queue, as the broker itself says."""
        return Count() if queue.startswith(NO_DEAD_LETTERS) else self.counted(queue)
