"""kafka-python, configured from :mod:`harness.core.settings`. The one module of the stage programs that knows the client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka import errors as Errors  # noqa: N812 - the client's own name for it
from kafka.structs import OffsetAndMetadata

from harness.core.settings import Members, SavePosition

if TYPE_CHECKING:
    from harness.programs.stage import Stage

NEVER_APPENDED: tuple[type[Exception], ...] = (
    Errors.MessageSizeTooLargeError,
    Errors.InvalidTopicError,
    Errors.TopicAuthorizationFailedError,
    Errors.NotEnoughReplicasError,
    Errors.UnsupportedForMessageFormatError,
    Errors.InvalidRequiredAcksError,
    Errors.InvalidProducerEpochError,
    Errors.ProducerFencedError,
)
"""Errors that a broker returns before it appends: the attempt is *refused*. Everything else leaves it *unknown*."""

_PATIENCE = {"request_timeout_ms": 15_000, "retry_backoff_ms": 50, "reconnect_backoff_ms": 20, "reconnect_backoff_max_ms": 200,
             "bootstrap_timeout_ms": 20_000, "metrics_enabled": False}  # fmt: skip


def make_producer(stage: Stage, *, transactional_id: str) -> Any:
    """Return a KafkaProducer with the stage's settings. Raises KafkaConfigurationError where the client refuses them."""
    settings = stage.settings.producer
    config: dict[str, Any] = {
        **_PATIENCE,
        "bootstrap_servers": stage.bootstrap,
        "client_id": stage.client_id,
        "acks": settings.acks,
        "enable_idempotence": settings.idempotence,
        "max_in_flight_requests_per_connection": settings.in_flight,
        "linger_ms": 100 if settings.unit > 1 else 0,
        "request_timeout_ms": settings.request_timeout_ms,
        "delivery_timeout_ms": settings.delivery_timeout_ms,
        "max_block_ms": 20_000,
    }
    if not settings.retries:
        config |= {"retries": 0, "delivery_timeout_ms": settings.delivery_timeout_ms // 3}
    if settings.transactional:
        config |= {"transactional_id": transactional_id, "transaction_timeout_ms": stage.settings.transaction_timeout_ms}
    return KafkaProducer(**config)


def make_consumer(stage: Stage) -> Any:
    """Return a KafkaConsumer of the stage's group, not subscribed yet."""
    settings = stage.settings.consumer
    auto = settings.position is SavePosition.AUTO
    return KafkaConsumer(
        **_PATIENCE | {"request_timeout_ms": settings.request_timeout_ms or max(15_000, settings.session_timeout_ms + 1000)},
        bootstrap_servers=stage.bootstrap,
        client_id=stage.client_id,
        group_id=stage.group,
        group_instance_id=f"{stage.key}-{stage.name}" if settings.members is Members.STATIC else None,
        enable_auto_commit=auto,
        auto_commit_interval_ms=settings.auto_commit_interval_ms,
        auto_offset_reset="earliest",
        isolation_level=settings.isolation,
        max_poll_records=settings.unit,
        max_partition_fetch_bytes=1 if settings.unit == 1 else 1 << 20,
        fetch_max_bytes=1 if settings.unit == 1 else 1 << 20,
        fetch_max_wait_ms=100,
        session_timeout_ms=settings.session_timeout_ms,
        heartbeat_interval_ms=max(100, settings.session_timeout_ms // 10),
    )


def read_cursor(stage: Stage) -> int:
    """Return the cursor written in the last committed transaction, or 1."""
    partition = TopicPartition(stage.topic_cursor, 0)
    consumer = KafkaConsumer(
        **_PATIENCE,
        bootstrap_servers=stage.bootstrap,
        client_id=f"{stage.client_id}.cursor",
        isolation_level="read_committed",
        enable_auto_commit=False,
        fetch_max_wait_ms=50,
    )
    try:
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        consumer.seek_to_beginning(partition)
        cursor = 1
        while consumer.position(partition) < end:
            for records in consumer.poll(timeout_ms=200).values():
                cursor = int(records[-1].value)
        return cursor
    finally:
        consumer.close(autocommit=False)


def offsets_after(topic: str, last: dict[int, int]) -> dict[Any, Any]:
    """Return ``{partition: offset after the last one}`` in the client's own types."""
    return {TopicPartition(topic, p): OffsetAndMetadata(o + 1, "", -1) for p, o in last.items()}
