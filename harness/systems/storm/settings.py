"""The settings of a topology, and its pipeline: what is anchored, acknowledged and committed under each semantic."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from harness.model.pipeline import Pipeline, SettingsError
from harness.model.semantics import Semantic
from harness.stages.settings import AT_LEAST_ONCE, AT_MOST_ONCE, Settings

if TYPE_CHECKING:
    from harness.model.pipeline import Pipeline as AnyPipeline

NAME: Final = "storm"


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


@dataclass(frozen=True, slots=True)
class StormSettings(Settings):
    """All that a semantic consists of: our producer, the topics, and the topology between them."""

    topology: TopologySettings = field(default_factory=lambda: TopologySettings(Guarantee.AT_LEAST_ONCE, 1))

    def check(self, pipeline: AnyPipeline, *, clustered: bool) -> None:
        """Raise SettingsError where they cannot be: a topology reads from one broker."""
        if clustered or self.topic.replicas > 1:
            raise SettingsError("a topology runs on one broker")
        if pipeline.system != NAME:
            raise SettingsError(f"a topology of Storm is no part of {pipeline}")

    @property
    def stages(self) -> Settings:
        """What our producer is told."""
        return Settings(self.producer, self.consumer, self.topic, self.transaction_timeout_ms)


STORM_AT_MOST_ONCE: Final = StormSettings(
    AT_MOST_ONCE.producer, AT_MOST_ONCE.consumer, topology=TopologySettings(Guarantee.AT_MOST_ONCE, ackers=0, anchored=False)
)
STORM_AT_LEAST_ONCE: Final = StormSettings(AT_LEAST_ONCE.producer, AT_LEAST_ONCE.consumer)
TOPOLOGY: Final = Pipeline(
    "storm-topology", NAME,
    {Semantic.AT_MOST_ONCE: STORM_AT_MOST_ONCE, Semantic.AT_LEAST_ONCE: STORM_AT_LEAST_ONCE}, to_topic=True,
)  # fmt: skip
"""outbox → producer → topic → KafkaSpout → a bolt → KafkaBolt → topic."""


def with_topology(settings: StormSettings, **changes: object) -> StormSettings:
    """Return settings with another topology."""
    return replace(settings, topology=replace(settings.topology, **changes))  # type: ignore[arg-type]  # its own fields


def storms(settings: object) -> StormSettings:
    """Return the settings of a cell of this system. Raises TypeError for others."""
    if not isinstance(settings, StormSettings):
        raise TypeError(f"these are no settings of a topology: {settings}")
    return settings
