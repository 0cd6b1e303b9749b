"""The settings of a Storm topology for each semantic, and its pipelines."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from harness.model.pipeline import Pipeline, SettingsError
from harness.model.scenario import Role
from harness.model.semantics import Semantic
from harness.stages.settings import (
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
    EXACTLY_ONCE,
    Settings,
    TopicSettings,
)

if TYPE_CHECKING:
    from harness.model.pipeline import Pipeline as AnyPipeline

NAME: Final = "storm"
ACKER: Final = Role("acker")
"""A worker that runs only the acker."""
NIMBUS: Final = Role("nimbus")
SUPERVISOR: Final = Role("supervisor")
ACK_SENT: Final = "ack-sent"
"""The failpoint in lostack's transport between workers, where the writing bolt tells the acker that
a record is done.
"""
PROCESSED: Final = "processed"
"""The failpoint in Trident's function, after it processed the target and before the state is
updated.
"""


class Guarantee(StrEnum):
    """``KafkaSpoutConfig.ProcessingGuarantee``."""

    AT_MOST_ONCE = "AT_MOST_ONCE"
    """The spout commits the polled offsets before it emits a record."""
    AT_LEAST_ONCE = "AT_LEAST_ONCE"
    """The spout commits, at intervals, the offsets up to which all records are acknowledged."""


@dataclass(frozen=True, slots=True)
class TopologySettings:
    """Settings of a topology besides its topics."""

    guarantee: Guarantee
    ackers: int
    """``topology.acker.executors``: how many ackers track the tuple trees; 0: none does."""
    anchored: bool = True
    """Whether the bolt anchors what it emits to the tuple that it processed."""
    commit_ms: int = 1
    """How often the spout commits acknowledged offsets; 1 ms means before it emits the
    next record.
    """
    timeout_s: int = 30
    """``topology.message.timeout.secs``: after this time without an acknowledgement the spout emits
    a record again.
    """
    pending: int = 1
    """``topology.max.spout.pending``: how many records may be unacknowledged at a time, if there is
    an acker.
    """
    linger_ms: int = 0
    """``linger.ms`` of the bolt's producer."""
    apart: bool = False
    """Whether the acker has its own worker, with lostack's transport between the two workers."""


class Batches(StrEnum):
    """The kinds of Trident's spouts and states, by how they handle a batch that is
    emitted again.
    """

    TRANSACTIONAL = "transactional"
    """The spout emits the same batch; the state stores the transaction id, and skips a batch that
    it has already.
    """
    OPAQUE = "opaque"
    """The spout may emit another batch; the state also stores the previous value, and starts again
    from it.
    """
    NONE = "none"
    """The state stores no id. There is no such spout."""


@dataclass(frozen=True, slots=True)
class TridentSettings:
    """Settings of a Trident topology: the kinds of its spout and its state."""

    spout: Batches
    state: Batches
    poll_ms: int = 20_000
    """How long the spout polls for a batch. It polls only once, also for a batch that it must emit
    again.

    It must be less than the tuple time-out. On a busy machine 5 s were too short for a worker that
    had just started.
    """
    timeout_s: int = 30
    """``topology.message.timeout.secs``."""

    def __post_init__(self) -> None:
        if self.spout is Batches.NONE:
            raise SettingsError("Trident's spout must be transactional or opaque")


@dataclass(frozen=True, slots=True)
class StormSettings(Settings):
    """All settings of a semantic: lostack's producer, the topics, and the topology between them."""

    topology: TopologySettings = field(
        default_factory=lambda: TopologySettings(Guarantee.AT_LEAST_ONCE, 1)
    )
    trident: TridentSettings | None = None
    """The settings of a Trident topology, which ignores ``topology``; ``None`` for other
    topologies.
    """

    def check(self, pipeline: AnyPipeline, *, clustered: bool) -> None:
        """Raise SettingsError if the settings do not fit: a topology runs on one broker, and on a
        pipeline of Storm.
        """
        if clustered or self.topic.replicas > 1:
            raise SettingsError("a topology runs on one broker")
        if pipeline.system != NAME:
            raise SettingsError(f"settings of a Storm topology do not fit the pipeline {pipeline}")
        if (self.trident is not None) is not pipeline.name.startswith(TRIDENT_NAME):
            raise SettingsError(
                f"{pipeline} {'does not take' if self.trident else 'needs'} settings of Trident"
            )

    @property
    def stages(self) -> Settings:
        """The settings of lostack's producer."""
        return Settings(self.producer, self.consumer, self.topic, self.transaction_timeout_ms)


TRIDENT_NAME: Final = "storm-trident"
STORM_AT_MOST_ONCE: Final = StormSettings(
    AT_MOST_ONCE.producer,
    AT_MOST_ONCE.consumer,
    topology=TopologySettings(Guarantee.AT_MOST_ONCE, ackers=0, anchored=False),
)
STORM_AT_LEAST_ONCE: Final = StormSettings(AT_LEAST_ONCE.producer, AT_LEAST_ONCE.consumer)
TOPOLOGY: Final = Pipeline(
    "storm-topology",
    NAME,
    {Semantic.AT_MOST_ONCE: STORM_AT_MOST_ONCE, Semantic.AT_LEAST_ONCE: STORM_AT_LEAST_ONCE},
    to_topic=True,
)
"""outbox → producer → topic → KafkaSpout → a bolt → KafkaBolt → topic."""
_ONE: Final = TopicSettings(partitions=1)
"""With several partitions, a batch that is emitted again may come from other partitions, or have
other records.
"""
TRIDENT_AT_LEAST_ONCE: Final = StormSettings(
    AT_LEAST_ONCE.producer,
    AT_LEAST_ONCE.consumer,
    _ONE,
    trident=TridentSettings(Batches.OPAQUE, Batches.NONE),
)
"""A state without transaction ids counts replayed records again."""
TRIDENT_EXACTLY_ONCE: Final = StormSettings(
    EXACTLY_ONCE.producer,
    EXACTLY_ONCE.consumer,
    _ONE,
    trident=TridentSettings(Batches.OPAQUE, Batches.OPAQUE),
)
TRIDENT: Final = Pipeline(
    TRIDENT_NAME,
    NAME,
    {
        Semantic.AT_MOST_ONCE: TRIDENT_AT_LEAST_ONCE,
        Semantic.AT_LEAST_ONCE: TRIDENT_AT_LEAST_ONCE,
        Semantic.EXACTLY_ONCE: TRIDENT_EXACTLY_ONCE,
    },
    to_topic=True,
)
"""outbox → producer → topic → Trident's spout → a function → a state by key, with the ids folded
into each value → topic.

Trident offers no at-most-once: its cells are not applicable, whatever the settings.
"""
TRIDENT_TO_DATABASE: Final = Pipeline(
    f"{TRIDENT_NAME}-to-database", NAME, TRIDENT.recipes, on_server=True
)
"""The same, but the state is a table of a PostgreSQL server, with the transaction id beside each
value.
"""
TRIDENTS: Final = (TRIDENT, TRIDENT_TO_DATABASE)


def with_trident(settings: StormSettings, **changes: object) -> StormSettings:
    """Return the settings with changes to the part of Trident.

    Raises:
        TypeError: the settings have no part of Trident.
    """
    if settings.trident is None:
        raise TypeError("these settings have no part of Trident")
    return replace(settings, trident=replace(settings.trident, **changes))  # type: ignore[arg-type]  # its own fields


def with_topology(settings: StormSettings, **changes: object) -> StormSettings:
    """Return the settings with changes to the topology."""
    return replace(settings, topology=replace(settings.topology, **changes))  # type: ignore[arg-type]  # its own fields
