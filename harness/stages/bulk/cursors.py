"""The cursor of a transactional bulk producer: the last committed record of its partition, read
from the end of the topic.

The record itself is the cursor, so both are in one transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import Consumer as RdConsumer
from confluent_kafka import KafkaError as Code
from confluent_kafka import KafkaException, TopicPartition

from harness.model.waiting import wait_until
from harness.stages.bulk.records import decode

if TYPE_CHECKING:
    from harness.stages.bulk.telling import BulkStage

WITHIN_S = 60.0
LAST = 64
"""How many offsets before the topic's end reading begins."""
MORE = 64


def last_cursor(stage: BulkStage) -> int:
    """Return the next position of the source: the one after the last committed record of the
    stage's partition.

    Raises:
        WaitTimeoutError: the broker does not give the end of the partition in time.
    """
    consumer = RdConsumer(
        {
            "bootstrap.servers": stage.bootstrap,
            "client.id": f"{stage.client_id}.cursor",
            "group.id": f"{stage.group}.cursor",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
            "broker.address.family": "v4",
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "log_level": 4,
        }
    )
    where, count = TopicPartition(stage.topic, stage.partition), LAST
    try:
        low, high = wait_until(
            lambda: _ends(consumer, where), within_s=WITHIN_S, because="the ends of the partition"
        )
        while True:
            values = _values(
                consumer, TopicPartition(stage.topic, stage.partition, max(low, high - count))
            )
            came = decode(values, stage.key, stage.partition, stage.record_bytes)
            if came.ended:
                return stage.end
            if len(came.positions):
                return int(came.positions[-1]) + 1
            if high - count <= low:
                return stage.begin
            count *= MORE
    finally:
        consumer.close()


def _ends(consumer: RdConsumer, where: TopicPartition) -> tuple[int, int] | None:
    try:
        low, high = consumer.get_watermark_offsets(where, timeout=1.0)
    except KafkaException:
        return None
    return int(low), int(high)


def _values(consumer: RdConsumer, begin: TopicPartition) -> list[bytes]:
    """Return the committed values, starting at an offset."""
    values: list[bytes] = []

    def at_end() -> bool:
        for message in consumer.consume(10_000, 0.05):
            error, value = message.error(), message.value()
            if error is None and value is not None:
                values.append(value)
            elif error is not None and error.code() == Code._PARTITION_EOF:  # noqa: SLF001 - the binding's own spelling
                return True
        return False

    consumer.assign([begin])
    wait_until(at_end, within_s=WITHIN_S, because="the end of the partition", poll_s=0)
    return values
