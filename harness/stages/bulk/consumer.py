"""The bulk consumer: reads one partition poll by poll into its sink, and saves the position when
the semantic requires it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Consumer as RdConsumer

from harness.failpoint import failpoint
from harness.model import kinds
from harness.model.semantics import Semantic
from harness.model.waiting import wait_until
from harness.stages.bulk.marks import Marks
from harness.stages.bulk.records import DecodedValues, decode
from harness.stages.bulk.results import Results
from harness.stages.bulk.telling import BulkStage
from harness.stages.stage import run_stage

if TYPE_CHECKING:
    from harness.model.writing import LedgerWriter

POLL_S = 0.1
AGAIN_S = 0.02
ASK_S = 60.0
PASSING: Final = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError._WAIT_COORD,  # noqa: SLF001
        KafkaError._TRANSPORT,  # noqa: SLF001 - constants, so called by librdkafka
    }
)
"""Errors that a broker returns after its start, before it has loaded its groups. (``retriable()``
covers only transactions.)
"""


class BulkConsumer:
    """One consumer, and its sink."""

    def __init__(self, stage: BulkStage, ledger: LedgerWriter) -> None:
        self._stage = stage
        self._ledger = ledger
        self._marks = Marks(Path(stage.marks))
        self._results = Results(Path(stage.results))
        self._consumer = self._make()
        self._first = True

    def run(self) -> None:
        """Poll and record until the program is killed."""
        self._consumer.assign(
            [saved_position(self._consumer, self._stage.topic, self._stage.partition)]
        )
        self._ledger.write(kinds.READY, role="consumer", partitions=[self._stage.partition])
        while True:
            messages = self._consumer.consume(self._stage.unit, POLL_S)
            if any(message.error() for message in messages):
                messages = [message for message in messages if not message.error()]
            if messages:
                self._work(messages)

    def _work(self, messages: list[Any]) -> None:
        stage, saved_first = self._stage, self._stage.semantic is Semantic.AT_MOST_ONCE
        came = decode(
            [message.value() for message in messages],
            stage.key,
            stage.partition,
            stage.record_bytes,
        )
        self._tell(came)
        behind = messages[-1].offset() + 1
        if saved_first:
            self._save(behind)
        failpoint("before-processing", stage.place)
        failpoint("before-recording", stage.place)
        self._results.record(
            came.positions, came.strange, once=stage.semantic is Semantic.EXACTLY_ONCE
        )
        if not saved_first:
            failpoint("before-commit", stage.place)
            self._save(behind)
        done = (
            stage.end + 1
            if came.ended
            else int(came.positions[-1]) + 1
            if len(came.positions)
            else 0
        )
        self._marks.advance(stage.partition, "done", done)

    def _tell(self, came: DecodedValues) -> None:
        """Write where this incarnation resumes into the ledger, and how far deliveries have come
        into the marks.
        """
        if not len(came.positions):
            return
        if self._first:
            before = self._marks.get(self._stage.partition, "delivered")
            self._ledger.write(
                kinds.RESUMED,
                where=self._stage.group,
                partition=self._stage.partition,
                position=int(came.positions[0]),
                delivered=before,
            )
            self._first = False
        self._marks.advance(self._stage.partition, "delivered", int(came.positions[-1]) + 1)

    def _save(self, offset: int) -> None:
        """Save the position, and repeat that until the broker confirms it."""
        where = [TopicPartition(self._stage.topic, self._stage.partition, offset)]
        while True:
            try:
                self._consumer.commit(offsets=where, asynchronous=False)
            except KafkaException:
                time.sleep(AGAIN_S)
            else:
                return

    def _make(self) -> RdConsumer:
        stage = self._stage
        return RdConsumer(
            {
                "bootstrap.servers": stage.bootstrap,
                "client.id": stage.client_id,
                "group.id": stage.group,
                "log_level": 4,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "broker.address.family": "v4",
                "isolation.level": "read_committed"
                if stage.semantic is Semantic.EXACTLY_ONCE
                else "read_uncommitted",
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "retry.backoff.ms": 50,
                "fetch.wait.max.ms": 100,
                "fetch.queue.backoff.ms": 10,
                "fetch.error.backoff.ms": 50,
                "coordinator.query.interval.ms": 1000,
                "queued.min.messages": 2 * stage.unit,
                "queued.max.messages.kbytes": 1 << 14,
                "socket.timeout.ms": 15_000,
            }
        )


class Saving(Protocol):
    """Who knows the saved positions of a group: its consumer."""

    def committed(
        self, partitions: list[TopicPartition], /, timeout: float
    ) -> list[TopicPartition]:
        """Ask the broker for them."""


def saved_position(
    consumer: Saving, topic: str, partition: int, within_s: float = ASK_S
) -> TopicPartition:
    """Return the saved position of a consumer's group in a partition; the partition's beginning if
    none is saved.

    Raises:
        KafkaException: the broker returned a permanent error.
        WaitTimeoutError: the broker did not answer in time.
    """

    def asked() -> TopicPartition | None:
        try:
            (found,) = consumer.committed([TopicPartition(topic, partition)], timeout=within_s)
        except KafkaException as error:
            if error.args[0].code() not in PASSING:
                raise
            return None
        return found if found.offset >= 0 else TopicPartition(topic, partition, OFFSET_BEGINNING)

    return wait_until(
        asked,
        within_s=within_s,
        because=f"the broker to know the position in {topic}/{partition}",
        poll_s=AGAIN_S,
    )


def consume(stage: BulkStage, ledger: LedgerWriter) -> None:
    """Run the program until it is killed."""
    BulkConsumer(stage, ledger).run()


if __name__ == "__main__":
    run_stage(consume, BulkStage.from_environment)
