"""The settings of lostack's Kafka Streams applications, and their pipelines."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from harness.model.pipeline import Pipeline, SettingsError
from harness.model.semantics import Semantic
from harness.stages.consumer_settings import GroupProtocol, Members
from harness.stages.settings import AT_LEAST_ONCE, EXACTLY_ONCE_IN_TRANSACTION, Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME: Final = "streams"
SOON_MS: Final = 3000
"""A short transaction time-out, for cells that wait until the transaction of a dead application is
aborted.
"""


class Guarantee(StrEnum):
    """The values of ``processing.guarantee``."""

    AT_LEAST_ONCE = "at_least_once"
    EXACTLY_ONCE_V2 = "exactly_once_v2"


@dataclass(frozen=True, slots=True)
class Streams:
    """Settings of Kafka Streams and of lostack's topology, besides those of every consumer and
    producer.
    """

    guarantee: Guarantee = Guarantee.AT_LEAST_ONCE
    each: bool = True
    """Whether the topology requests a commit after each record. Otherwise it commits every
    ``commit_interval_ms``.
    """
    commit_interval_ms: int = 30_000
    standbys: int = 0
    """``num.standby.replicas``: how many other instances keep a copy of a state, ready to take
    over.
    """
    step: bool = False
    """Whether a record's result is sent only after the changelog acknowledged its state change.
    Otherwise both go together.
    """
    flush: bool = False
    """Whether each state change is written to the local disk at once, as RocksDB does when its
    memory is full.
    """
    keeps_ms: int = 0
    """The minimum time for which the topology with a punctuator keeps each record in its store."""
    transaction_timeout_ms: int = 10_000
    """The default of Kafka Streams, longer than any transaction of a living application."""


@dataclass(frozen=True, slots=True)
class StreamsSettings(Settings):
    """The settings of lostack's stages and of Kafka Streams. Implements
    :class:`harness.model.pipeline.Settings`.
    """

    streams: Streams = field(default_factory=Streams)

    def check(self, pipeline: Pipeline, *, clustered: bool) -> None:
        """Raise SettingsError if the settings contradict each other, or do not fit the pipeline or
        the number of brokers.
        """
        if pipeline.system != NAME:
            raise SettingsError(f"settings of Kafka Streams do not fit the pipeline {pipeline}")
        if self.topic.replicas > 1 and not clustered:
            raise SettingsError("one broker keeps one replica; use Deployment.CLUSTER")
        if self.streams.standbys >= self.consumer.count:
            raise SettingsError("a standby is another instance: count must exceed standbys")
        by_broker = self.consumer.protocol is GroupProtocol.STREAMS
        if by_broker and (self.streams.standbys or self.consumer.members is Members.STATIC):
            raise SettingsError(
                "a group of the streams protocol has no static members, and its standbys are set "
                "on the group"
            )


def _of(settings: Settings, guarantee: Guarantee) -> StreamsSettings:
    return StreamsSettings(
        settings.producer,
        settings.consumer,
        settings.topic,
        settings.transaction_timeout_ms,
        Streams(guarantee),
    )


def told(settings: StreamsSettings, **more: object) -> StreamsSettings:
    """Return the settings with changes to the part of Kafka Streams."""
    return replace(settings, streams=replace(settings.streams, **more))  # type: ignore[arg-type]  # fields by their names


ALO_SETTINGS: Final = _of(AT_LEAST_ONCE, Guarantee.AT_LEAST_ONCE)
EOS_SETTINGS: Final = _of(EXACTLY_ONCE_IN_TRANSACTION, Guarantee.EXACTLY_ONCE_V2)
SOON_OVER: Final = told(EOS_SETTINGS, transaction_timeout_ms=SOON_MS)
_RECIPES: Final[Mapping[Semantic, StreamsSettings]] = {
    Semantic.AT_MOST_ONCE: ALO_SETTINGS,
    Semantic.AT_LEAST_ONCE: ALO_SETTINGS,
    Semantic.EXACTLY_ONCE: EOS_SETTINGS,
}
"""Kafka Streams offers no at-most-once: its cells are not applicable, whatever the settings."""

MAP: Final = Pipeline(
    "streams-map", NAME, {**_RECIPES, Semantic.EXACTLY_ONCE: SOON_OVER}, to_topic=True
)
"""outbox → producer → topic → a step without state → topic.

Without a store nothing is on the disk, not even the process id with which a restarted instance
would abort its open transaction: readers wait for the transaction's time-out.
"""
DEDUP: Final = Pipeline("streams-dedup", NAME, _RECIPES, to_topic=True)
"""outbox → producer → topic → a persistent store of the ids that were seen → topic."""
COUNT: Final = Pipeline("streams-count", NAME, _RECIPES, to_topic=True)
"""outbox → producer → topic → a persistent store by key → topic, with each new value and the ids
folded into it.
"""
LATER: Final = Pipeline(
    "streams-later", NAME, {**_RECIPES, Semantic.EXACTLY_ONCE: SOON_OVER}, to_topic=True
)
"""outbox → producer → topic → a persistent store, from which a wall-clock punctuator sends the
records later → topic.
"""
PIPELINES: Final = (MAP, DEDUP, COUNT, LATER)
TOPOLOGIES: Final = {MAP.name: "map", DEDUP.name: "dedup", COUNT.name: "count", LATER.name: "later"}
"""Pipeline → the name of its topology in lostack's program."""
