"""The cursor of a transactional producer: a group's position, committed in the producer's own transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer as RdConsumer
from confluent_kafka import KafkaException, TopicPartition

if TYPE_CHECKING:
    from harness.stages.bulk.telling import BulkStage

ASK_S = 60.0


class Cursor:
    """The position that the source's group has in the topic: not an offset, but where the source goes on."""

    def __init__(self, stage: BulkStage) -> None:
        self._stage = stage
        self._consumer: Any = RdConsumer({
            "bootstrap.servers": stage.bootstrap, "client.id": f"{stage.client_id}.cursor",
            "group.id": f"{stage.key}.source-{stage.partition}", "enable.auto.commit": False,
            "isolation.level": "read_committed",  # what is pending in a transaction is waited for
            "broker.address.family": "v4", "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "log_level": 4,
            "retry.backoff.ms": 50, "coordinator.query.interval.ms": 1000,
        })  # fmt: skip

    def read(self) -> int | None:
        """Return the last committed cursor; ``None``: there is none."""
        while True:
            try:
                (found,) = self._consumer.committed(self._at(-1), timeout=ASK_S)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
            else:
                return int(found.offset) if found.offset >= 0 else None

    def save(self, producer: Any, position: int, within_s: float) -> None:
        """Put a cursor into the producer's transaction. Raises KafkaException."""
        producer.send_offsets_to_transaction(self._at(position), self._consumer.consumer_group_metadata(), within_s)

    def _at(self, position: int) -> list[TopicPartition]:
        return [TopicPartition(self._stage.topic, self._stage.partition, position)]
