"""The settings of a Kafka Streams application of ours, and its pipelines."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from harness.model.pipeline import Pipeline, SettingsError
from harness.model.semantics import Semantic
from harness.stages.settings import AT_LEAST_ONCE, EXACTLY_ONCE_IN_TRANSACTION, GroupProtocol, Members, Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME: Final = "streams"
SOON_MS: Final = 3000
"""A time-out of transactions that is waited for: of an application that is gone for good, or has forgotten its name."""


class Guarantee(StrEnum):
    """``processing.guarantee``: all that Kafka Streams offers."""

    AT_LEAST_ONCE = "at_least_once"
    EXACTLY_ONCE_V2 = "exactly_once_v2"


@dataclass(frozen=True, slots=True)
class Streams:
    """What Kafka Streams is told beyond what every consumer and producer is told, and what our topology does besides."""

    guarantee: Guarantee = Guarantee.AT_LEAST_ONCE
    each: bool = True
    """The topology asks for a commit after each record; else it is committed every ``commit_interval_ms``."""
    commit_interval_ms: int = 30_000
    standbys: int = 0
    """``num.standby.replicas``: how many other instances keep a copy of a state that is ready to be taken over."""
    step: bool = False
    """The changelog has acknowledged what a record does to the state before its result is sent; else both go in one request."""
    flush: bool = False
    """What a record does to the state is written to the local disk at once, as RocksDB does when its memory is full."""
    keeps_ms: int = 0
    """For how long at least a topology that sends by the clock keeps each record."""
    transaction_timeout_ms: int = 10_000
    """What Kafka Streams sets by itself; longer than any transaction of an application that lives."""


@dataclass(frozen=True, slots=True)
class StreamsSettings(Settings):
    """Those of a stage of ours, and of Kafka Streams. Implements :class:`harness.model.pipeline.Settings`."""

    streams: Streams = field(default_factory=Streams)

    def check(self, pipeline: Pipeline, *, clustered: bool) -> None:
        """Raise SettingsError where they cannot be on a pipeline, or without a cluster."""
        if pipeline.system != NAME:
            raise SettingsError(f"settings of Kafka Streams are none of {pipeline}")
        if self.topic.replicas > 1 and not clustered:
            raise SettingsError("one broker keeps one replica; use Deployment.CLUSTER")
        if self.streams.standbys >= self.consumer.count:
            raise SettingsError("a standby is another instance: count must exceed standbys")
        by_broker = self.consumer.protocol is GroupProtocol.STREAMS
        if by_broker and (self.streams.standbys or self.consumer.members is Members.STATIC):
            raise SettingsError("a group of the streams protocol has no static members, and is told of standbys by itself")


def _of(settings: Settings, guarantee: Guarantee) -> StreamsSettings:
    return StreamsSettings(
        settings.producer, settings.consumer, settings.topic, settings.transaction_timeout_ms, Streams(guarantee)
    )


def told(settings: StreamsSettings, **more: object) -> StreamsSettings:
    """Return settings with other words for Kafka Streams."""
    return replace(settings, streams=replace(settings.streams, **more))  # type: ignore[arg-type]  # fields by their names


ALO_SETTINGS: Final = _of(AT_LEAST_ONCE, Guarantee.AT_LEAST_ONCE)
EOS_SETTINGS: Final = _of(EXACTLY_ONCE_IN_TRANSACTION, Guarantee.EXACTLY_ONCE_V2)
SOON_OVER: Final = told(EOS_SETTINGS, transaction_timeout_ms=SOON_MS)
_RECIPES: Final[Mapping[Semantic, StreamsSettings]] = {
    Semantic.AT_MOST_ONCE: ALO_SETTINGS, Semantic.AT_LEAST_ONCE: ALO_SETTINGS, Semantic.EXACTLY_ONCE: EOS_SETTINGS,
}  # fmt: skip
"""At-most-once is not offered: no cell of it applies, whatever its settings."""

MAP: Final = Pipeline("streams-map", NAME, {**_RECIPES, Semantic.EXACTLY_ONCE: SOON_OVER}, to_topic=True)
"""outbox → producer → topic → a step without state → topic.

Without a store nothing is kept on the disk, not even the name by which an instance that starts again would end what it has left
open: everybody waits for the time-out of that transaction.
"""
DEDUP: Final = Pipeline("streams-dedup", NAME, _RECIPES, to_topic=True)
"""outbox → producer → topic → a persistent store of the ids that were seen → topic."""
COUNT: Final = Pipeline("streams-count", NAME, _RECIPES, to_topic=True)
"""outbox → producer → topic → a persistent store by key; each new value, with the ids folded into it → topic."""
LATER: Final = Pipeline("streams-later", NAME, {**_RECIPES, Semantic.EXACTLY_ONCE: SOON_OVER}, to_topic=True)
"""outbox → producer → topic → a persistent store, whose records are sent on by the clock (a wall-clock punctuator) → topic."""
PIPELINES: Final = (MAP, DEDUP, COUNT, LATER)
TOPOLOGIES: Final = {MAP.name: "map", DEDUP.name: "dedup", COUNT.name: "count", LATER.name: "later"}
"""What our program calls them."""


def streams_of(settings: object) -> StreamsSettings:
    """Return the settings of a cell of Kafka Streams.

    Raises:
        TypeError: they are another system's.
    """
    if not isinstance(settings, StreamsSettings):
        raise TypeError(f"these are no settings of Kafka Streams: {settings}")
    return settings
