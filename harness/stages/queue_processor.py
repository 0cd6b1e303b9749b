"""The processor stage between queues: queue → transform → queue. Exactly-once by a transaction of
result and acknowledgement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.failpoint import failpoint
from harness.model import kinds
from harness.model.record import ORIGIN_HEADER, decode_id
from harness.stages.clients import client_of, queue_client_of
from harness.stages.consumer_settings import SavePosition
from harness.stages.queue_consumer import RECEIVE_S, acknowledged
from harness.stages.sending import Message, Sender
from harness.stages.stage import Stage, run_stage

if TYPE_CHECKING:
    from harness.model.writing import LedgerWriter
    from harness.stages.clients.queues import Received


class Processor:
    """A consumer and a producer, and the work on each message between them."""

    def __init__(self, stage: Stage, ledger: LedgerWriter) -> None:
        self._stage = stage
        self._ledger = ledger
        self._position = stage.settings.consumer.position
        self._consumer = queue_client_of(stage).make_consumer(stage)
        self._sender = Sender(
            stage, ledger, client_of(stage).make_producer(stage, transactional_id=""), hop="sink"
        )

    def run(self) -> None:
        """Transform every message that arrives, until the program is killed."""
        self._consumer.subscribe(self._stage.topic_in)
        self._ledger.write(kinds.READY, role="processor")
        work = (
            self._in_transaction if self._position is SavePosition.IN_TRANSACTION else self._outside
        )
        while True:
            given = self._consumer.receive(RECEIVE_S)
            if given is None:
                continue
            record = decode_id(given.value)
            self._ledger.write(kinds.DELIVERED, record=record, redelivered=given.redelivered)
            work(given)
            failpoint("after-commit", record)

    def _in_transaction(self, given: Received) -> None:
        """Send the result and the acknowledgement in one transaction. If it aborts, the broker
        gives the message again.
        """
        self._sender.commit(
            self._transform(given), before_commit=lambda: self._consumer.acknowledge(given)
        )

    def _outside(self, given: Received) -> None:
        """Send the result without a transaction, and acknowledge before or after that."""
        before = self._position is SavePosition.BEFORE_WORK
        if before and not acknowledged(self._ledger, self._consumer, given):
            return
        messages = self._transform(given)
        while not self._sender.send(messages) and self._stage.settings.producer.resend:
            pass
        failpoint("before-commit", decode_id(given.value))
        if not before:
            acknowledged(self._ledger, self._consumer, given)

    def _transform(self, given: Received) -> list[Message]:
        record = decode_id(given.value)
        failpoint("before-processing", record)
        message = Message(
            self._stage.topic_out,
            record,
            given.key,
            given.value,
            ((ORIGIN_HEADER, given.name.encode()),),
        )
        failpoint("before-recording", record)
        return [message]


def process(stage: Stage, ledger: LedgerWriter) -> None:
    """Run the stage."""
    Processor(stage, ledger).run()


if __name__ == "__main__":
    run_stage(process)
