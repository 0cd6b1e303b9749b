"""What a declaration says of the broker that lostack starts: its protocol, its version, its
settings.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from harness.pipelines.dialects import SPOKEN, dialect_of
from harness.pipelines.refusing import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from harness.pipelines.dialects import Dialect

OWN: Final[Mapping[str, tuple[str, ...]]] = {
    "kafka": (
        "advertised.listeners",
        "broker.id",
        "controller.*",
        "inter.broker.listener.name",
        "listener.*",
        "listeners",
        "log.dir*",
        "node.id",
        "process.roles",
        "sasl.*",
        "ssl.*",
    ),
    "activemq": (
        "brokerName",
        "dataDirectory*",
        "destinationPolicy",
        "persistenceAdapter",
        "persistenceFactory",
        "persistent",
        "policy.deadLetterStrategy",
        "policy.queue",
        "useJmx",
    ),
    "artemis": (
        "acceptor*",
        "bindingsDirectory",
        "journal*",
        "largeMessagesDirectory",
        "name",
        "pagingDirectory",
        "persistenceEnabled",
        "security*",
        "*.autoDelete*",
        "*.deadLetterAddress",
    ),
    "pulsar": (
        "advertised*",
        "bindAddress*",
        "brokerService*",
        "clusterName",
        "defaultRetention*",
        "internalListenerName",
        "managedLedgerDefault*",
        "metadata*",
        "webService*",
    ),
}
"""The settings that lostack itself makes on each system, and counts on, as patterns."""

CLEANING: Final[Mapping[str, str]] = {
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": "2097152",
}
"""Settings of a broker some of whose topics are compacted: Kafka looks for what there is to take
every 15 s by itself.
"""
LAG: Final = "min.compaction.lag.ms"
KEPT_WHOLE: Final[Mapping[str, str]] = {
    LAG: "86400000",
    "max.compaction.lag.ms": str(2**63 - 1),
    "min.cleanable.dirty.ratio": "0",
}
"""Settings of a compacted topic: lostack reads it whole at the end, and compacts it itself, where
that is the fault.
"""
CLUSTER: Final = 3
"""How many brokers lostack starts if there are several: one may be away, and two agree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """The broker that lostack starts for the pipeline."""

    protocol: str = ""
    """What the programs speak to it. On activemq: ``stomp`` (default), ``openwire`` or ``amqp``; on
    artemis also ``core``.
    """
    version: str = ""
    """Its version. By default the newest that lostack knows; an unknown one is refused with a list
    of those there are.
    """
    settings: Mapping[str, str] = field(default_factory=dict)
    """Its settings, by the names that the broker has for them."""
    replicas: int = 0
    """How many of several brokers have a copy of each topic. By default all of them.
    ``min.insync.replicas`` is 2 then, or what ``topic_settings`` says.
    """

    def copies(self, brokers: int) -> int:
        """Return how many brokers have a copy of each topic. ``brokers``: how many there are."""
        return self.replicas or brokers

    def check(self, system: str, brokers: int = 1, *, secured: bool = False) -> None:
        """Raise DeclarationError if the system does not speak the protocol, or lostack itself
        makes a setting.
        """
        self._check_size(system, brokers, secured=secured)
        spoken = SPOKEN[system]
        if self.protocol and self.protocol not in spoken:
            raise DeclarationError(
                f"broker: protocol {self.protocol!r}: on {system} programs speak "
                f"{' or '.join(spoken)}"
            )
        makes = OWN.get(system) or (self.dialect(system).own if self.settings else ())
        for name in self.settings:
            if any(fnmatchcase(name, own) for own in makes):
                raise DeclarationError(
                    f"broker: settings: {name} is set by lostack, which counts on it: leave it out"
                )

    def _check_size(self, system: str, brokers: int, *, secured: bool) -> None:
        if brokers not in {1, CLUSTER}:
            raise DeclarationError(f"brokers: {brokers}; write 1 or {CLUSTER}")
        if brokers > 1 and system != "kafka":
            raise DeclarationError(f"brokers: on {system} lostack starts one: take it away")
        if brokers > 1 and secured:
            raise DeclarationError(
                f"brokers: with [security] lostack starts one, not {brokers}: take one of the two "
                "away"
            )
        if not 0 <= self.replicas <= brokers:
            raise DeclarationError(
                f"broker: replicas: {self.replicas}; write a number from 1 to {brokers}, which is "
                "how many brokers there are (brokers)"
            )

    def dialect(self, system: str) -> Dialect:
        """Return the names of the steps on the wire."""
        return dialect_of(system, self.protocol)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """The settings of topics, by the names that Kafka has for them. ``each``: those of all topics;
    ``of``: by topic, those that it has besides or instead.
    """

    each: Mapping[str, str] = field(default_factory=dict)
    of: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def to(self, topic: str) -> Mapping[str, str]:
        """Return the settings of one topic. A compacted one loses records only by the fault."""
        kept = KEPT_WHOLE if self.compacts((topic,)) else {}
        return {**self._of(topic), **kept}

    def compacts(self, topics: Iterable[str]) -> bool:
        """Say whether one of these topics is to be compacted."""
        return any("compact" in self._of(each).get("cleanup.policy", "") for each in topics)

    def _of(self, topic: str) -> Mapping[str, str]:
        return {**self.each, **self.of.get(topic, {})}

    def check(self, system: str, topics: Collection[str], *, logs: bool) -> None:
        """Raise DeclarationError if the system's topics have no settings, a topic is unknown, or
        lostack counts on a setting. ``logs``: whether its topics are logs.
        """
        if (self.each or self.of) and not logs:
            raise DeclarationError(
                f"topic_settings: on {system} what holds for a queue is among the settings of the "
                "broker: write it in [broker]"
            )
        if unknown := next((name for name in self.of if name not in topics), None):
            raise DeclarationError(
                f"topic_settings: {unknown!r} is a table, and no topic: name one of topics "
                f"({', '.join(topics)}), or write a setting's name with dots in quotes"
            )
