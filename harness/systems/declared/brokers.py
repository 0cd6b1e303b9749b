"""The brokers that a declared pipeline runs on: ours, or somebody else's (:mod:`harness.systems.declared.attached`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from harness.model.scenario import Role
from harness.model.waiting import wait_until
from harness.run.nodes import ServerNode
from harness.stages.access import Access

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from harness.controls import Target
    from harness.model.history import HistoryWriter
    from harness.runtimes.interface import Runtime
    from harness.systems.kafka.observer import Observer
    from harness.systems.kafka.transport import KafkaTransport
    from harness.wire.control import WireControl

CLEAN_S = 20.0
OBSERVERS_CLIENT: Final = "kafka-python"
"""The client by which lostack itself reads the logs at rest."""
OBSERVER: Final = f"observer ({OBSERVERS_CLIENT})"
"""How a report calls it: it is none of the pipeline's clients."""


class Brokers(Protocol):
    """Running brokers behind their wire, all of whose routes belong to the cell that is running."""

    @property
    def runtime(self) -> Runtime:
        """Where they live."""

    @property
    def directory(self) -> Path:
        """The folder of the deployment."""

    @property
    def access(self) -> Access | None:
        """How the stages are let in; null: anybody is."""

    @property
    def wire(self) -> WireControl:
        """The wire's control."""

    def start(self) -> None:
        """Start what is ours, and the wire."""

    def bootstrap(self, role: Role) -> str:
        """Return the addresses that a stage is given: the wire's."""

    def routes(self, *roles: str) -> tuple[str, ...]:
        """Return the names of the wire's routes for these roles."""

    def destination(self, topic: str) -> str:
        """Return what clients, and the wire, call a topic, or a queue, of the declaration."""

    def servers(self, history: HistoryWriter) -> Mapping[Role, Callable[[], Target]]:
        """Return the servers that a cell may kill which has them to itself."""

    def create(self, topics: Mapping[str, int]) -> None:
        """Create topics: name → partitions."""

    def clean(self, topics: Iterable[str]) -> None:
        """Delete what the cell before has left: its topics, with their positions, and its groups."""

    def check(self) -> None:
        """Raise EnvironmentFailure where something of it has died by itself."""

    def close(self) -> None:
        """End what is ours. Safe to call twice."""


class KafkaBrokers(Brokers, Protocol):
    """Brokers of Kafka."""

    observer: Observer
    own_access: Access | None
    """How lostack itself is let in, past the wire."""

    @property
    def direct(self) -> str:
        """Where the brokers are reached past the wire."""

    def groups(self, seen: Iterable[str]) -> tuple[str, ...]:
        """Return the pipeline's groups. ``seen``: those that it was seen to use."""

    def ours(self, seen: Iterable[str]) -> tuple[str, ...]:
        """Return those of them that may be put out and deleted."""


class OwnBrokers:
    """A broker of ours. Implements :class:`KafkaBrokers`."""

    def __init__(self, transport: KafkaTransport) -> None:
        self._transport = transport
        self.observer = transport.observer
        self.runtime = transport.runtime
        self.directory = transport.directory
        self.access: Access | None = None
        self.own_access: Access | None = None

    @property
    def wire(self) -> WireControl:
        """The wire's control."""
        return self._transport.wire

    @property
    def direct(self) -> str:
        """Where the broker is reached past the wire."""
        return self._transport.direct

    def start(self) -> None:
        """Start wire and broker."""
        self._transport.start()
        if self._transport.secured is not None:
            self.access = Access.read(self._transport.secured.access)

    def bootstrap(self, role: Role) -> str:
        """Return the wire's address for a role."""
        return self._transport.bootstrap(role)

    def routes(self, *roles: str) -> tuple[str, ...]:
        """Return the names of the wire's routes for these roles."""
        return tuple(route.name for route in self._transport.routes(*roles))

    def destination(self, topic: str) -> str:
        """Return its name: it is that everywhere."""
        return topic

    def servers(self, history: HistoryWriter) -> Mapping[Role, Callable[[], Target]]:
        """Return the broker."""
        own = self._transport
        node = ServerNode(history, own.broker_process, own.kill_broker, own.restart_broker)
        return {Role.BROKER: lambda: node}

    def groups(self, seen: Iterable[str]) -> tuple[str, ...]:
        """Return all that there are."""
        del seen
        return self.observer.groups()

    def ours(self, seen: Iterable[str]) -> tuple[str, ...]:
        """Return all of them."""
        return self.groups(seen)

    def create(self, topics: Mapping[str, int]) -> None:
        """Create topics: name → partitions."""
        self.observer.create_topics({name: (partitions, {}) for name, partitions in topics.items()})

    def clean(self, topics: Iterable[str]) -> None:
        """Delete what the cell before has left: its topics, with their positions, and its groups."""
        clean(self, topics)

    def check(self) -> None:
        """Raise EnvironmentFailure where guardian or wire have died by themselves."""
        self._transport.check()

    def close(self) -> None:
        """End wire and broker."""
        self._transport.close()


def clean(brokers: KafkaBrokers, topics: Iterable[str]) -> None:
    """Put out and delete the groups that are ours, delete the topics that are there, and wait until they are gone."""
    topics, groups, observer = tuple(topics), brokers.ours(()), brokers.observer
    for group in groups:
        observer.expel(group)
    observer.forget([topic for topic in topics if observer.has(topic)], groups)
    gone = f"{', '.join(topics)} of the cell before to be gone"
    wait_until(lambda: not any(observer.has(t) for t in topics), within_s=CLEAN_S, because=gone, poll_s=0.05)
