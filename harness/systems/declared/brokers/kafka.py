"""The brokers of a declared pipeline: started by lostack, or attached
(:mod:`harness.systems.declared.brokers.attached`).
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final, Protocol, TypedDict, Unpack

from kafka.errors import InvalidConfigurationError, PolicyViolationError

from harness.model.failures import CellFailure
from harness.model.scenario import Role
from harness.model.waiting import wait_until
from harness.run.nodes import ServerNode
from harness.stages.access import Access

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from harness.controls import Target
    from harness.model.history import HistoryWriter
    from harness.pipelines.broker import TopicSettings
    from harness.runtimes.interface import Runtime
    from harness.systems.kafka.observer import Observer, Placement
    from harness.systems.kafka.transport import KafkaTransport
    from harness.wire.control import WireControl

CLEAN_S = 20.0
REFUSAL: Final = re.compile(r"\berror_message=(?P<quote>['\"])(?P<text>.+?)(?P=quote)")
"""What the broker says of the topic that it does not make, in the client's words."""
OBSERVERS_CLIENT: Final = "kafka-python"
"""The client with which lostack itself reads the logs at rest."""
OBSERVER: Final = f"observer ({OBSERVERS_CLIENT})"
"""The name of this client in a report, which tells it apart from the pipeline's clients."""


class Brokers(Protocol):
    """Running brokers behind their wire. All routes of the wire belong to the cell
    that is running.
    """

    @property
    def runtime(self) -> Runtime:
        """The runtime in which the brokers live."""

    @property
    def directory(self) -> Path:
        """The folder of the deployment."""

    @property
    def access(self) -> Access | None:
        """The credentials of the stages; ``None`` if the brokers ask for none."""

    @property
    def around(self) -> frozenset[str]:
        """The addresses at which a program would reach the brokers past the wire, as far as
        programs could know them.
        """

    @property
    def wire(self) -> WireControl:
        """The wire's control."""

    def start(self) -> None:
        """Start the brokers, unless they are attached, and the wire."""

    def bootstrap(self, role: Role) -> str:
        """Return the bootstrap addresses for a stage, which are the wire's."""

    def routes(self, *roles: str) -> tuple[str, ...]:
        """Return the names of the wire's routes for these roles."""

    def destination(self, topic: str) -> str:
        """Return the name by which clients and the wire know a topic or queue of the
        declaration.
        """

    def servers(self, history: HistoryWriter) -> Mapping[Role, Callable[[], Target]]:
        """Return the servers that a cell may kill if it does not share them, by their roles."""

    def create(self, topics: Mapping[str, int], settings: TopicSettings, copies: int) -> None:
        """Create topics (name → partitions) with their settings. ``copies``: how many brokers have
        each.

        Raises:
            CellFailure: the broker refuses a setting.
        """

    def clean(self, topics: Iterable[str]) -> None:
        """Delete the topics, positions and groups that an earlier cell left."""

    def check(self) -> None:
        """Raise EnvironmentFailure if a process of the deployment died by itself."""

    def close(self) -> None:
        """Stop what lostack started. Safe to call twice."""


class KafkaBrokers(Brokers, Protocol):
    """Kafka brokers, with an observer that reads their logs."""

    observer: Observer
    own_access: Access | None
    """The credentials of lostack itself, which does not connect through the wire."""

    @property
    def direct(self) -> str:
        """The brokers' own address, without the wire."""

    def note_made(self, groups: Iterable[str], topics: Iterable[str]) -> None:
        """Note groups that the pipeline's programs used, and topics that they made for themselves:
        lostack deletes those that did not exist before.
        """

    def groups(self, seen: Iterable[str]) -> tuple[str, ...]:
        """Return the pipeline's groups. ``seen``: the groups that the wire saw the pipeline use."""

    def deletable_groups(self, seen: Iterable[str]) -> tuple[str, ...]:
        """Return those of the pipeline's groups that lostack may empty and delete."""


class OwnBrokers:
    """One broker that lostack starts. Implements :class:`KafkaBrokers`."""

    around: frozenset[str] = frozenset()

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
        """The broker's own address, without the wire."""
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
        """Return the topic's name, unchanged."""
        return topic

    def servers(self, history: HistoryWriter) -> Mapping[Role, Callable[[], Target]]:
        """Return the broker."""
        own = self._transport
        node = ServerNode(history, own.broker_process, own.kill_broker, own.restart_broker)
        return {Role.BROKER: lambda: node}

    def note_made(self, groups: Iterable[str], topics: Iterable[str]) -> None:
        """Do nothing: the broker goes with all that is on it."""

    def groups(self, seen: Iterable[str]) -> tuple[str, ...]:
        """Return all groups of the broker."""
        del seen
        return self.observer.groups()

    def deletable_groups(self, seen: Iterable[str]) -> tuple[str, ...]:
        """Return all groups of the broker: no other pipeline runs on it."""
        return self.groups(seen)

    def create(self, topics: Mapping[str, int], settings: TopicSettings, copies: int) -> None:
        """Create topics: name → partitions."""
        del copies
        create(self.observer, topics, settings)

    def clean(self, topics: Iterable[str]) -> None:
        """Delete the topics, positions and groups that an earlier cell left."""
        clean(self, topics)

    def check(self) -> None:
        """Raise EnvironmentFailure if the guardian or the wire died by itself."""
        self._transport.check()

    def close(self) -> None:
        """Stop the wire and the broker."""
        self._transport.close()


class TopicPlacement(TypedDict, total=False):
    """On which brokers a topic is, as for the observer."""

    replicas: int
    placement: Placement


def create(
    observer: Observer,
    topics: Mapping[str, int],
    settings: TopicSettings,
    **where: Unpack[TopicPlacement],
) -> bool:
    """Create topics (name → partitions) with their settings. Return false if one was there already.

    Raises:
        CellFailure: the broker refuses a setting.
    """
    wanted = {name: (partitions, settings.to(name)) for name, partitions in topics.items()}
    try:
        return observer.create_topics(wanted, **where)
    except (InvalidConfigurationError, PolicyViolationError) as error:
        text = " ".join(str(error).split())  # the client shows the whole answer
        said = REFUSAL.search(text)
        raise CellFailure(
            f"topic_settings: the broker refuses them: {said['text'] if said else text}"
        ) from error


def clean(brokers: KafkaBrokers, topics: Iterable[str]) -> None:
    """Empty and delete the run's own groups, and delete the topics."""
    groups = brokers.deletable_groups(())
    for group in groups:
        brokers.observer.expel(group)
    brokers.observer.forget((), groups)
    delete(brokers.observer, topics)


def delete(observer: Observer, topics: Iterable[str], *, away_s: float = 0.0) -> None:
    """Delete topics, and again whenever one is there again, until all have been away for
    ``away_s`` seconds: a broker with ``auto.create.topics.enable`` makes a topic anew for a late
    request of a program.
    """
    topics, since = tuple(topics), [time.monotonic()]

    def gone() -> bool:
        if back := observer.there(topics):
            observer.forget(back, ())
            since[0] = time.monotonic()
        return not back and time.monotonic() - since[0] >= away_s

    because = f"{', '.join(topics)} to be deleted" + (" and to stay away" if away_s else "")
    wait_until(gone, within_s=CLEAN_S, because=because, poll_s=0.02)
