"""The processor stage: topic → transform → topic. Exactly-once by offsets sent in the transaction
of the results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.failpoint import failpoint
from harness.model.record import ORIGIN_HEADER, decode_id
from harness.stages import consuming
from harness.stages.clients import client_of
from harness.stages.consumer_settings import GroupMetadata, SavePosition
from harness.stages.sending import Message, Sender
from harness.stages.stage import Stage, run_stage

if TYPE_CHECKING:
    from harness.model.writing import LedgerWriter
    from harness.stages.clients.interface import Delivered, Membership, Producer

TAKEN_BACK_S = 20.0
"""How many seconds a replaced producer may take to close."""


class Processor:
    """A consumer and a producer, and the work on each batch between them."""

    def __init__(self, stage: Stage, ledger: LedgerWriter) -> None:
        self._stage = stage
        self._client = client_of(stage)
        self._ledger = ledger
        self._settings = stage.settings.consumer
        self._producer = (
            self._new_producer()
        )  # before the first poll: what a dead predecessor left pending is settled
        self._consumer = self._client.make_consumer(stage)
        consuming.subscribe(stage, ledger, self._consumer)
        self._sender = Sender(stage, ledger, self._producer, hop="sink")

    def run(self) -> None:
        """Transform every record that arrives, until the program is killed."""
        work = (
            self._in_transaction
            if self._settings.position is SavePosition.IN_TRANSACTION
            else self._outside
        )
        for batch in consuming.batches(self._stage, self._ledger, self._consumer):
            work(batch)
            _pass("after-commit", batch)

    def _in_transaction(self, batch: list[Delivered]) -> None:
        """Send results and offsets in one transaction. If it aborts, the batch is read again."""
        group = self._consumer.membership()
        if (
            not group.member
        ):  # put out of the group since the poll: its offsets would be taken, and fence nobody
            consuming.rewind(self._consumer, batch)
        elif self._sender.commit(
            self._transform(batch), before_commit=lambda: self._send_offsets(batch, group)
        ):
            _pass("before-commit", batch)
        else:
            # kafka-python 3.0.12 sends offsets that were refused again, with those of its next
            # transaction, and the position of a partition that another member has long gone on with
            # goes back: such a producer is done with
            self._producer.close(TAKEN_BACK_S)
            self._producer = self._sender.producer = self._new_producer()
            consuming.rewind(self._consumer, batch)

    def _new_producer(self) -> Producer:
        producer = self._client.make_producer(
            self._stage, transactional_id=self._stage.transactional_id
        )
        if self._stage.settings.producer.transactional:
            producer.init_transactions()
        return producer

    def _send_offsets(self, batch: list[Delivered], group: Membership) -> None:
        if self._settings.group_metadata is GroupMetadata.AT_COMMIT:
            # the mistake: polling again to stay in the group, and then taking the metadata of the
            # new generation
            group = consuming.rejoined(self._consumer)
        self._producer.send_offsets(self._stage.topic_in, consuming.positions_after(batch), group)

    def _outside(self, batch: list[Delivered]) -> None:
        """Send the results without a transaction, and save the position before or after that."""
        before = self._settings.position is SavePosition.BEFORE_WORK
        if before and not consuming.save_until_confirmed(
            self._stage, self._ledger, self._consumer, batch
        ):
            return
        messages = self._transform(batch)
        while not self._sender.send(messages) and self._stage.settings.producer.resend:
            pass
        _pass("before-commit", batch)
        if self._settings.position is SavePosition.AFTER_RECORDING:
            positions = consuming.positions_after(batch)
            consuming.save(self._stage, self._ledger, self._consumer, positions)

    def _transform(self, batch: list[Delivered]) -> list[Message]:
        _pass("before-processing", batch)
        messages = [
            Message(
                self._stage.topic_out,
                decode_id(m.value),
                m.key,
                m.value,
                ((ORIGIN_HEADER, _origin(m)),),
            )
            for m in batch
        ]
        _pass("before-recording", batch)
        return messages


def _origin(message: Delivered) -> bytes:
    return f"{message.partition}.{message.leader_epoch}.{message.offset}".encode()


def _pass(name: str, batch: list[Delivered]) -> None:
    for message in batch:
        failpoint(name, decode_id(message.value))


def process(stage: Stage, ledger: LedgerWriter) -> None:
    """Run the stage."""
    Processor(stage, ledger).run()


if __name__ == "__main__":
    run_stage(process)
