"""The base for a package's broker of queues: one program with one port for its clients, each role
by a route of its own through the wire.
"""

from __future__ import annotations

from abc import abstractmethod
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final

from harness.model.scenario import Role
from harness.run.queue_broker import Count
from harness.run.queues import BROKER
from harness.run.served import ServedBroker
from harness.runtimes.interface import NodeSpec
from harness.wire.messages import Route

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from harness.run.queue_broker import Message

ROLES: Final = (Role.PRODUCER, Role.CONSUMER)
NO_DEAD_LETTERS: Final = "lostack-no-dead-letters."
"""How the name of a queue begins that a broker without dead letters does not have."""


class QueueServed(ServedBroker):
    """A broker of queues in a node of its own. What is not abstract may be left as it is.

    Implements :class:`harness.run.queue_broker.QueueBroker`.
    """

    roles: ClassVar[tuple[Role, ...]] = ROLES
    """Those that connect to it, each by a route of its own."""
    protocol: ClassVar[str]
    """What its clients speak: a name in the registry of protocols."""

    def __init__(self, directory: Path, ports: int = 0) -> None:
        """``ports``: how many further ports it needs: :attr:`further`."""
        super().__init__(directory, 1 + len(self.roles) + ports)
        self.port, *others = self.ports
        self._by_role = dict(zip(self.roles, others, strict=False))
        self.further = tuple(others[len(self.roles) :])

    @abstractmethod
    def argv(self) -> Sequence[str]:
        """Return the command that starts the broker in the foreground on :attr:`port` of
        ``127.0.0.1``, on the data in :attr:`data`. It is the server itself, not a script around it.
        """

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

    @property
    def data(self) -> Path:
        """The folder of the broker's data, which outlives its process."""
        return (self._directory / "data").absolute()

    def spec(self) -> NodeSpec:
        """Return how to start the broker's process, on its existing data."""
        return NodeSpec(
            name=BROKER,
            role=Role.BROKER,
            argv=tuple(self.argv()),
            env=self.environment(),
            log=self._directory / f"{BROKER}.log",
            cwd=self._directory.absolute(),
        )

    def start(self) -> None:
        """Start wire and broker, and wait until the broker answers.

        Raises:
            EnvironmentFailure: the broker does not come up.
        """
        self.data.mkdir(parents=True, exist_ok=True)
        super().start()

    def routes(self) -> Sequence[Route]:
        """Return a route through the broker's wire for each role."""
        return [
            Route(str(role), BROKER, role, port, self.port, protocol=self.protocol)
            for role, port in self._by_role.items()
        ]

    def address(self, role: Role) -> str:
        """Return the address at which programs of a role connect: the wire's."""
        return f"{self.runtime.address('wire')}:{self._by_role[role]}"

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
