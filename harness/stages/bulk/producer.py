"""The bulk producer: sends the positions of one partition unit by unit, and saves the cursor when
the semantic requires it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka import Producer as RdProducer

from harness.failpoint import failpoint
from harness.model import kinds
from harness.model.semantics import Semantic
from harness.stages.bulk.cursors import last_cursor
from harness.stages.bulk.marks import Marks
from harness.stages.bulk.records import END, encode
from harness.stages.bulk.telling import BulkStage
from harness.stages.stage import run_stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import KafkaError, Message

    from harness.model.writing import LedgerWriter

BATCH_BYTES = 1_000_000
"""The largest batch that a broker accepts by default."""
TRANSACTION_MS = 60_000
REQUEST_MS = 15_000
GIVEN_UP_MS = 60_000
SENT_S = 120.0


class Failed(Exception):  # noqa: N818 - of a unit, and what follows depends on the semantic
    """Not every record of a unit was acknowledged."""


class BulkProducer:
    """One producer, and its cursor."""

    def __init__(self, stage: BulkStage, ledger: LedgerWriter) -> None:
        self._stage = stage
        self._ledger = ledger
        self._marks = Marks(Path(stage.marks))
        self._failed: list[KafkaError] = []
        self._transactional = stage.semantic is Semantic.EXACTLY_ONCE
        self._producer = self._make()

    def run(self) -> None:
        """Send every unit from the cursor on, then the value that marks the end."""
        cursor = self._resumed()
        self._ledger.write(kinds.READY, role="producer")
        while cursor < self._stage.end:
            after = min(cursor + self._stage.unit, self._stage.end)
            cursor = self._unit(cursor, after)
        values = encode(
            self._stage.key, self._stage.partition, 0, 1, size=self._stage.record_bytes, kind=END
        )
        while not self._acts(lambda: self._send(values)):
            pass

    def _unit(self, cursor: int, after: int) -> int:
        """Send one unit as the semantic requires; return the next position."""
        stage, semantic = self._stage, self._stage.semantic
        values = encode(stage.key, stage.partition, cursor, after - cursor, size=stage.record_bytes)
        self._marks.advance(stage.partition, "taken", after)
        if semantic is Semantic.AT_MOST_ONCE:
            self._marks.put(stage.partition, "cursor", after)
        failpoint("before-send", stage.place)
        sent = self._acts(lambda: self._send(values))
        if semantic is Semantic.EXACTLY_ONCE:
            return after if sent else self._resumed()
        while not sent and semantic is Semantic.AT_LEAST_ONCE:
            sent = self._acts(lambda: self._send(values))
        if semantic is Semantic.AT_LEAST_ONCE:
            self._marks.put(stage.partition, "cursor", after)
        elif not sent:
            self._marks.advance(stage.partition, "unheard", after)
        return after

    def _acts(self, send: Callable[[], None]) -> bool:
        """Call ``send``, in a transaction if the producer is transactional; return false if not
        everything was acknowledged.
        """
        try:
            if self._transactional:
                self._producer.begin_transaction()
            send()
            if self._transactional:
                self._patiently(self._producer.commit_transaction)
        except (KafkaException, Failed) as error:
            if self._transactional:
                self._abort(error)
            return False
        return True

    def _send(self, values: list[bytes]) -> None:
        """Send values and wait for every acknowledgement."""
        stage = self._stage
        self._failed.clear()
        offered = self._producer.produce_batch(
            stage.topic,
            [{"value": value} for value in values],
            partition=stage.partition,
            on_delivery=self._told,
        )
        if offered != len(values):
            raise Failed(f"{len(values) - offered} records were not taken by the client")
        left = self._producer.flush(SENT_S)
        if left or self._failed:
            raise Failed(
                f"{left} records not acknowledged, {len(self._failed)} failed: {self._failed[:1]}"
            )

    def _told(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failed.append(error)

    def _abort(self, error: Exception) -> None:
        """Abort the transaction; if that fails, make a new producer, which ends it."""
        fatal = isinstance(error, KafkaException) and error.args[0].fatal()
        try:
            if not fatal:
                self._patiently(self._producer.abort_transaction)
                return
        except KafkaException:
            pass
        self._producer = self._make()

    def _patiently(self, call: Callable[[float], None]) -> None:
        while True:
            try:
                call(SENT_S)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
            else:
                return

    def _resumed(self) -> int:
        """Return the next position."""
        stage = self._stage
        cursor = (
            last_cursor(stage)
            if self._transactional
            else self._marks.get(stage.partition, "cursor")
        )
        taken = self._marks.get(stage.partition, "taken")
        self._ledger.write(
            kinds.RESUMED, where="source", partition=stage.partition, position=cursor, taken=taken
        )
        return cursor

    def _make(self) -> RdProducer:
        stage = self._stage
        config: dict[str, object] = {
            "bootstrap.servers": stage.bootstrap,
            "client.id": stage.client_id,
            "log_level": 4,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "broker.address.family": "v4",
            "topic.metadata.refresh.fast.interval.ms": 50,
            "retry.backoff.ms": 50,
            "linger.ms": 5,
            "batch.size": BATCH_BYTES,
            "batch.num.messages": 100_000,
            "delivery.report.only.error": True,
            "queue.buffering.max.messages": 4 * stage.unit,
            "queue.buffering.max.kbytes": 1 << 20,
            "max.in.flight.requests.per.connection": 1,
            "request.timeout.ms": REQUEST_MS,
            "socket.timeout.ms": REQUEST_MS,
            "delivery.timeout.ms": GIVEN_UP_MS,
        }
        match stage.semantic:
            case Semantic.AT_MOST_ONCE:
                config |= {"acks": 1, "enable.idempotence": False, "retries": 0}
            case Semantic.AT_LEAST_ONCE:
                config |= {"acks": "all", "enable.idempotence": False}
            case Semantic.EXACTLY_ONCE:
                config |= {
                    "acks": "all",
                    "transactional.id": stage.transactional_id,
                    "transaction.timeout.ms": TRANSACTION_MS,
                }
        producer = RdProducer(config)
        if stage.semantic is Semantic.EXACTLY_ONCE:
            self._patiently(producer.init_transactions)
        return producer


def produce(stage: BulkStage, ledger: LedgerWriter) -> None:
    """Run the program."""
    BulkProducer(stage, ledger).run()


if __name__ == "__main__":
    run_stage(produce, BulkStage.from_environment)
