"""Brokers for declared pipelines on a queue: of any system whose deployment has a queue broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from harness.interfaces import TakesSettings
from harness.model.scenario import Deployment, Role
from harness.run.queue_broker import Creates
from harness.run.queue_parts import server_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from harness.controls import Target
    from harness.interfaces import Deployed, Launcher
    from harness.model.history import HistoryWriter
    from harness.pipelines.broker import Broker, TopicSettings
    from harness.pipelines.security import DeclaredSecurity
    from harness.run.queue_broker import QueueBroker
    from harness.runtimes.interface import Runtime
    from harness.stages.access import Access
    from harness.wire.control import WireControl


class HasBroker(Protocol):
    """What a deployment must have so that a declared pipeline can run on it."""

    broker: QueueBroker


@runtime_checkable
class SpeaksSeveral(Protocol):
    """A broker that speaks several protocols."""

    def speaking(self, protocol: str) -> QueueBroker:
        """Return the same broker, seen by clients of another protocol."""


class OwnQueues:
    """Queue brokers that lostack starts. Implements
    :class:`harness.systems.declared.system.Source`.
    """

    attached = False

    def __init__(self, launcher: Launcher, broker: Broker | None = None) -> None:
        self._launcher = launcher
        self._protocol = "" if broker is None else broker.protocol
        if broker is not None and isinstance(launcher, TakesSettings):
            launcher.settings = broker.settings

    def prepare(self, say: Callable[[str], None]) -> None:
        """Download what the broker is started from."""
        self._launcher.prepare(say)

    def brokers(
        self,
        need: Deployment,
        directory: Path,
        security: DeclaredSecurity | None,
        roles: tuple[str, ...] = (),
        size: int = 1,
    ) -> QueueBrokers:
        """Return a broker that is not started yet. It serves one cell at a time."""
        del need, security, roles, size
        return QueueBrokers(self._launcher, directory, self._protocol)

    def versions(self) -> Mapping[str, str]:
        """Return the versions that the broker's system reports."""
        return self._launcher.versions()


class QueueBrokers:
    """One queue broker that lostack starts. Implements
    :class:`harness.systems.declared.brokers.kafka.Brokers`.
    """

    access: Access | None = None
    around: frozenset[str] = frozenset()

    def __init__(self, launcher: Launcher, directory: Path, protocol: str = "") -> None:
        self._launcher = launcher
        self._protocol = protocol
        self._deployed: Deployed | None = None
        self.directory = directory

    @property
    def broker(self) -> QueueBroker:
        """The running broker.

        Raises:
            RuntimeError: the broker was not started.
        """
        if self._deployed is None:
            raise RuntimeError("the queue broker was never started")
        broker = cast("HasBroker", self._deployed).broker
        if self._protocol and isinstance(broker, SpeaksSeveral):
            return broker.speaking(self._protocol)
        return broker

    @property
    def runtime(self) -> Runtime:
        """The runtime in which the broker lives."""
        return self.broker.runtime

    @property
    def wire(self) -> WireControl:
        """The wire's control."""
        return self.broker.wire

    def start(self) -> None:
        """Start wire and broker."""
        self._deployed = self._launcher.deploy(Deployment.OWN, self.directory)

    def bootstrap(self, role: Role) -> str:
        """Return the wire's address for a role."""
        return self.broker.address(role)

    def routes(self, *roles: str) -> tuple[str, ...]:
        """Return the names of the wire's routes for these roles."""
        return tuple(route.name for route in self.wire.routes() if route.role in roles)

    def destination(self, topic: str) -> str:
        """Return the name by which clients know a queue."""
        return self.broker.queue(topic)

    def servers(self, history: HistoryWriter) -> Mapping[Role, Callable[[], Target]]:
        """Return the broker, by its role."""
        node = server_of(self.broker, history)
        return {Role.BROKER: lambda: node}

    def create(self, topics: Mapping[str, int], settings: TopicSettings, copies: int) -> None:
        """Make the queues that do not exist as soon as a client names them."""
        del settings, copies
        if isinstance(broker := self.broker, Creates):
            for topic in topics:
                broker.create(broker.queue(topic), "")

    def clean(self, topics: Iterable[str]) -> None:
        """Do nothing: what an earlier cell left is noted, and not counted (``Leftovers``)."""

    def check(self) -> None:
        """Raise EnvironmentFailure if the guardian or the wire died by itself."""
        if self._deployed is not None:
            self._deployed.check()

    def close(self) -> None:
        """Stop the wire and the broker. Safe to call twice."""
        if self._deployed is not None:
            self._deployed.close()
            self._deployed = None
