"""The settings of a topology, and its pipeline: what is anchored, acknowledged and committed under each semantic."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from harness.model.pipeline import Pipeline, SettingsError
from harness.model.scenario import Role
from harness.model.semantics import Semantic
from harness.stages.settings import AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE, Settings, TopicSettings

if TYPE_CHECKING:
    from harness.model.pipeline import Pipeline as AnyPipeline

NAME: Final = "storm"
ACKER: Final = Role("acker")
"""The worker that has nothing but the acker, where it has one to itself."""
NIMBUS: Final = Role("nimbus")
SUPERVISOR: Final = Role("supervisor")
ACK_SENT: Final = "ack-sent"
"""The failpoint of our transport between workers: there the bolt that writes tells the acker that a record is done."""
PROCESSED: Final = "processed"
"""The failpoint of Trident's function: it has made of the target what the state is to have."""


class Guarantee(StrEnum):
    """``KafkaSpoutConfig.ProcessingGuarantee``."""

    AT_MOST_ONCE = "AT_MOST_ONCE"
    """What is polled is committed before any of it is emitted."""
    AT_LEAST_ONCE = "AT_LEAST_ONCE"
    """What is acknowledged, and all before it, is committed now and then."""


@dataclass(frozen=True, slots=True)
class TopologySettings:
    """What a topology is told beside what is read and written."""

    guarantee: Guarantee
    ackers: int
    """``topology.acker.executors``: who follows the tree of tuples of each record; 0: nobody does."""
    anchored: bool = True
    """Whether what the bolt emits belongs to the tree of what it was made of."""
    commit_ms: int = 1
    """How often the spout commits what is acknowledged: here before it emits the next one."""
    timeout_s: int = 30
    """``topology.message.timeout.secs``: how long a tree may take before its record is emitted again."""
    pending: int = 1
    """``topology.max.spout.pending``: how many trees there are at a time, where anybody follows them."""
    linger_ms: int = 0
    """How long the bolt's client waits for a batch to be whole."""
    apart: bool = False
    """Whether the acker is in a worker of its own, and our transport between the two."""


class Batches(StrEnum):
    """What Trident's spout does with a batch that it has to emit again, and by what a state knows that it has one already."""

    TRANSACTIONAL = "transactional"
    """The spout emits the same batch; the state keeps the id of the transaction, and leaves out what has that already."""
    OPAQUE = "opaque"
    """The spout emits what comes next; the state keeps the value before, too, and begins with that."""
    NONE = "none"
    """The state keeps no id. No spout is like this."""


@dataclass(frozen=True, slots=True)
class TridentSettings:
    """What a topology of Trident is told: which spout, which state."""

    spout: Batches
    state: Batches
    poll_ms: int = 20_000
    """How long the spout polls for a batch. It polls once, also for one that it must emit again.

    Less than a tuple's time-out. On a starved machine 5 s were too short for a worker that had just started.
    """
    timeout_s: int = 30
    """``topology.message.timeout.secs``."""

    def __post_init__(self) -> None:
        if self.spout is Batches.NONE:
            raise SettingsError("a spout of Trident is transactional or opaque")


@dataclass(frozen=True, slots=True)
class StormSettings(Settings):
    """All that a semantic consists of: our producer, the topics, and the topology between them."""

    topology: TopologySettings = field(default_factory=lambda: TopologySettings(Guarantee.AT_LEAST_ONCE, 1))
    trident: TridentSettings | None = None
    """Where it is one of Trident, for which what else a topology is told means nothing."""

    def check(self, pipeline: AnyPipeline, *, clustered: bool) -> None:
        """Raise SettingsError where they cannot be: a topology reads from one broker."""
        if clustered or self.topic.replicas > 1:
            raise SettingsError("a topology runs on one broker")
        if pipeline.system != NAME:
            raise SettingsError(f"a topology of Storm is no part of {pipeline}")
        if (self.trident is not None) is not pipeline.name.startswith(TRIDENT_NAME):
            raise SettingsError(f"{pipeline} is {'no' if self.trident else 'a'} topology of Trident")

    @property
    def stages(self) -> Settings:
        """What our producer is told."""
        return Settings(self.producer, self.consumer, self.topic, self.transaction_timeout_ms)


TRIDENT_NAME: Final = "storm-trident"
STORM_AT_MOST_ONCE: Final = StormSettings(
    AT_MOST_ONCE.producer, AT_MOST_ONCE.consumer, topology=TopologySettings(Guarantee.AT_MOST_ONCE, ackers=0, anchored=False)
)
STORM_AT_LEAST_ONCE: Final = StormSettings(AT_LEAST_ONCE.producer, AT_LEAST_ONCE.consumer)
TOPOLOGY: Final = Pipeline(
    "storm-topology", NAME,
    {Semantic.AT_MOST_ONCE: STORM_AT_MOST_ONCE, Semantic.AT_LEAST_ONCE: STORM_AT_LEAST_ONCE}, to_topic=True,
)  # fmt: skip
"""outbox → producer → topic → KafkaSpout → a bolt → KafkaBolt → topic."""
_ONE: Final = TopicSettings(partitions=1)
"""Of several partitions a batch that is emitted again may have others than before, or what it did not have."""
TRIDENT_AT_LEAST_ONCE: Final = StormSettings(
    AT_LEAST_ONCE.producer, AT_LEAST_ONCE.consumer, _ONE, trident=TridentSettings(Batches.OPAQUE, Batches.NONE)
)
"""A state that knows no transactions has what is replayed once more."""
TRIDENT_EXACTLY_ONCE: Final = StormSettings(
    EXACTLY_ONCE.producer, EXACTLY_ONCE.consumer, _ONE, trident=TridentSettings(Batches.OPAQUE, Batches.OPAQUE)
)
TRIDENT: Final = Pipeline(
    TRIDENT_NAME, NAME,
    {
        Semantic.AT_MOST_ONCE: TRIDENT_AT_LEAST_ONCE, Semantic.AT_LEAST_ONCE: TRIDENT_AT_LEAST_ONCE,
        Semantic.EXACTLY_ONCE: TRIDENT_EXACTLY_ONCE,
    },
    to_topic=True,
)  # fmt: skip
"""outbox → producer → topic → Trident's spout → a function → a state by key, with the ids folded into each value → topic.

At-most-once is not offered: no cell of it applies, whatever its settings.
"""
TRIDENT_TO_DATABASE: Final = Pipeline(f"{TRIDENT_NAME}-to-database", NAME, TRIDENT.recipes, on_server=True)
"""The same, and the state is a table of a PostgreSQL server, with the id of the transaction beside each value."""
TRIDENTS: Final = (TRIDENT, TRIDENT_TO_DATABASE)


def with_trident(settings: StormSettings, **changes: object) -> StormSettings:
    """Return settings with another spout, or another state.

    Raises:
        TypeError: they are none of Trident.
    """
    if settings.trident is None:
        raise TypeError("these are no settings of Trident")
    return replace(settings, trident=replace(settings.trident, **changes))  # type: ignore[arg-type]  # its own fields


def with_topology(settings: StormSettings, **changes: object) -> StormSettings:
    """Return settings with another topology."""
    return replace(settings, topology=replace(settings.topology, **changes))  # type: ignore[arg-type]  # its own fields


def storms(settings: object) -> StormSettings:
    """Return the settings of a cell of this system.

    Raises:
        TypeError: they are another system's.
    """
    if not isinstance(settings, StormSettings):
        raise TypeError(f"these are no settings of a topology: {settings}")
    return settings
