"""The settings of each semantic on Pulsar, and the pipeline: outbox → producer → topic →
subscription → database.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from harness.model.pipeline import Pipeline
from harness.model.semantics import Semantic
from harness.stages.consumer_settings import ConsumerSettings, SavePosition
from harness.stages.pushing import Cursor, PushSettings
from harness.stages.settings import (
    AT_MOST_ONCE,
    QUEUE_AT_LEAST_ONCE,
    QUEUE_EXACTLY_ONCE,
    Settings,
    TopicSettings,
)

AMO: Final = Settings(AT_MOST_ONCE.producer, AT_MOST_ONCE.consumer, TopicSettings(partitions=0))
"""The program sends once, and acknowledges before its work. The library may still send again by
itself.
"""
ALO: Final = QUEUE_AT_LEAST_ONCE
EOS: Final = replace(
    QUEUE_EXACTLY_ONCE, producer=replace(QUEUE_EXACTLY_ONCE.producer, idempotence=True)
)
"""The broker deduplicates by the producer's name and the record's number in the source; the sink by
the record's id.
"""
AMO_DEDUPLICATED: Final = replace(AMO, producer=replace(AMO.producer, idempotence=True))
ALO_DEDUPLICATED: Final = replace(ALO, producer=EOS.producer)


def answered(settings: Settings) -> Settings:
    """Return settings in which an acknowledgement is sent at once, and the program waits for its
    answer.
    """
    return _pushed(settings, receipts=True)


def with_cursor(settings: Settings, cursor: Cursor, *, puts_off: int = 0) -> Settings:
    """Return settings in which the broker writes acknowledgements down in another way, and
    deduplicates the producer.
    """
    deduplicated = replace(settings, producer=replace(settings.producer, idempotence=True))
    return _pushed(deduplicated, cursor=cursor, puts_off=puts_off)


def in_parts(settings: Settings) -> Settings:
    """Return settings in which messages are sent in chunks: the smallest in two, the largest in
    about thirty-five.
    """
    return replace(settings, producer=replace(settings.producer, part_bytes=30))


def _pushed(settings: Settings, **more: Any) -> Settings:
    return replace(
        settings, consumer=replace(settings.consumer, push=replace(settings.consumer.push, **more))
    )


SUBSCRIPTION: Final = Pipeline(
    "subscription",
    "pulsar",
    {Semantic.AT_MOST_ONCE: AMO, Semantic.AT_LEAST_ONCE: ALO, Semantic.EXACTLY_ONCE: EOS},
)
IN_TRANSACTION: Final = replace(
    EOS,
    transaction_timeout_ms=5_000,
    consumer=ConsumerSettings(
        position=SavePosition.IN_TRANSACTION, push=PushSettings(receipts=True)
    ),
)
"""Result and acknowledgement in one transaction. The transaction of a dead program ends by its
time-out.
"""
TRANSFORM: Final = Pipeline(
    "transform",
    "pulsar",
    {
        Semantic.AT_MOST_ONCE: answered(AMO),
        Semantic.AT_LEAST_ONCE: answered(ALO),
        Semantic.EXACTLY_ONCE: IN_TRANSACTION,
    },
    to_topic=True,
)
"""outbox → producer → topic → subscription → processor → topic."""
