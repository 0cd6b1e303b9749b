"""What every consuming stage does alike: subscribe, report where it resumes, poll, save positions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from kafka import ConsumerRebalanceListener, TopicPartition
from kafka.errors import CommitFailedError, KafkaConnectionError, MetadataEmptyBrokerList

from harness.core import events as kinds
from harness.core.record import decode_id
from harness.core.waiting import wait_until
from harness.programs.clients import offsets_after

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from harness.core.history import HistoryWriter
    from harness.programs.stage import Stage

POLL_MS = 1000
"""Long enough for a join: a poll that ends within one was seen to leave kafka-python 3.0.12 silent for ever."""
METADATA_S = 10.0
OUTAGE_S = 60.0


class Subscription(ConsumerRebalanceListener):  # type: ignore[misc]
    """Writes down assignments, and seeks to positions that are kept elsewhere."""

    def __init__(self, stage: Stage, ledger: HistoryWriter, consumer: Any,
                 kept: Callable[[], dict[int, int]] | None) -> None:  # fmt: skip
        self._ledger = ledger
        self._consumer = consumer
        self._kept = kept
        # with the topic known beforehand the first join is the only one
        wait_until(lambda: consumer.partitions_for_topic(stage.topic_in), within_s=METADATA_S, because=stage.topic_in)
        consumer.subscribe([stage.topic_in], listener=self)

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Nothing is saved at a rebalance: every position is saved with its record."""

    def on_partitions_assigned(self, assigned: Any) -> None:
        """Go to the saved positions, and say so."""
        kept = self._kept() if self._kept else {}
        for partition in sorted(assigned):
            if partition.partition in kept:
                self._consumer.seek(partition, kept[partition.partition])
        if assigned:
            self._ledger.write(kinds.READY, role="consumer", partitions=sorted(p.partition for p in assigned))


def batches(stage: Stage, ledger: HistoryWriter, consumer: Any) -> Iterator[list[Any]]:
    """Yield the records of each poll that brought any, for ever; the first of each partition is reported as resumed."""
    seen: set[int] = set()
    while True:
        polled = _poll(consumer, stage.settings.consumer.unit)
        batch = [record for records in polled.values() for record in records]
        for message in batch:
            if message.partition not in seen:
                seen.add(message.partition)
                ledger.write(kinds.RESUMED, where=stage.group, partition=message.partition, position=message.offset)
            ledger.write(kinds.DELIVERED, record=decode_id(message.value), partition=message.partition,
                         epoch=message.leader_epoch, offset=message.offset)  # fmt: skip
        if batch:
            yield batch


def _poll(consumer: Any, most: int) -> dict[Any, list[Any]]:
    """Poll; while no broker can be reached, again: kafka-python raises where other clients wait."""
    polled: dict[Any, list[Any]] = {}

    def answered() -> bool:
        try:
            polled.update(consumer.poll(timeout_ms=POLL_MS, max_records=most))
        except (KafkaConnectionError, MetadataEmptyBrokerList):  # nobody there, or back and not registered yet
            return False
        return True

    wait_until(answered, within_s=OUTAGE_S, because="a broker to answer the consumer", poll_s=0.05)
    return polled


def rejoined(consumer: Any, stay_ms: int) -> Any:
    """Stay in the group by polling, for ``stay_ms`` and until stable; return the group metadata.

    What people do during long work. A member that was put out meanwhile is in again afterwards, with new partitions.
    What arrives is put back, not paused: a partition paused and resumed around a rebalance was seen to stay out of the
    fetch session of kafka-python 3.0.12 for ever.
    """
    until = time.monotonic() + stay_ms / 1000

    def stable() -> Any:
        for records in consumer.poll(timeout_ms=stay_ms, max_records=1).values():
            rewind(consumer, records)
        metadata = consumer.group_metadata()
        in_group = metadata.generation_id >= 0 and consumer.assignment()
        return metadata if in_group and time.monotonic() >= until else None

    return wait_until(stable, within_s=OUTAGE_S, because="the consumer to be in its group again")


def save(stage: Stage, ledger: HistoryWriter, consumer: Any, batch: list[Any]) -> Exception | None:
    """Commit the position after ``batch`` synchronously; return why it is not known to be saved (as the ledger says)."""
    problem = error = None
    try:
        consumer.commit(positions_after(stage, batch), timeout_ms=10_000)
    except Exception as raised:  # noqa: BLE001 - whatever it was, the position is not known to be saved
        problem, error = raised, f"{type(raised).__name__}: {raised}"[:300]
    for partition, position in positions_after(stage, batch).items():
        ledger.write(kinds.SAVED, partition=partition.partition, offset=position.offset, error=error)
    return problem


def save_until_confirmed(stage: Stage, ledger: HistoryWriter, consumer: Any, batch: list[Any]) -> bool:
    """Commit the position until that has succeeded: what is not confirmed is not worked on.

    False where the group has put this consumer out: the batch is not its own any more, and it must join again.
    """
    while problem := save(stage, ledger, consumer, batch):
        if isinstance(problem, CommitFailedError):
            rewind(consumer, batch)
            return False
    return True


def positions_after(stage: Stage, batch: list[Any]) -> dict[Any, Any]:
    """Return the position behind the last record of each partition of a batch."""
    return offsets_after(stage.topic_in, {message.partition: message.offset for message in batch})


def rewind(consumer: Any, batch: list[Any]) -> None:
    """After an aborted transaction: read the batch again, as far as its partitions are still ours."""
    mine = consumer.assignment()
    for message in reversed(batch):
        partition = TopicPartition(message.topic, message.partition)
        if partition in mine:
            consumer.seek(partition, message.offset)
