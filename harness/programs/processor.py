"""The processor stage: topic → transform → topic. Exactly-once by offsets sent in the transaction of the results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.core.record import ORIGIN_HEADER, decode_id
from harness.core.settings import GroupMetadata, SavePosition
from harness.failpoint import failpoint
from harness.programs.stage import Stage, run_stage

if TYPE_CHECKING:
    from harness.core.history import HistoryWriter


def process(stage: Stage, ledger: HistoryWriter) -> None:
    """Transform everything that arrives, until stopped."""
    from harness.programs.clients import make_consumer, make_producer, offsets_after  # noqa: PLC0415 - a refusal belongs into the ledger
    from harness.programs.consuming import Subscription, batches, rejoined, rewind, save  # noqa: PLC0415
    from harness.programs.sending import Message, Sender  # noqa: PLC0415

    settings = stage.settings.consumer
    in_transaction = settings.position is SavePosition.IN_TRANSACTION
    producer = make_producer(stage, transactional_id=f"{stage.key}-{stage.name}")
    if stage.settings.producer.transactional:
        producer.init_transactions()  # before the first poll: pending offsets of a dead predecessor are settled
    consumer = make_consumer(stage)
    Subscription(stage, ledger, consumer, None)
    sender = Sender(stage, ledger, producer, hop="sink")

    def message_of(arrived: Any) -> Message:
        origin = f"{arrived.partition}.{arrived.leader_epoch}.{arrived.offset}".encode()
        record = decode_id(arrived.value)
        return Message(stage.topic_out, record, arrived.key, bytes(arrived.value), ((ORIGIN_HEADER, origin),))

    for batch in batches(stage, ledger, consumer):
        group = consumer.group_metadata()
        if in_transaction and group.generation_id < 0:
            # put out of the group since the poll: a commit without a generation would be taken, and fence nobody
            rewind(consumer, batch)
            continue
        if settings.position is SavePosition.BEFORE_WORK:
            while not save(stage, ledger, consumer, batch):  # what is not confirmed is not worked on
                pass
        for arrived in batch:
            failpoint("before-processing", decode_id(arrived.value))
        messages = [message_of(arrived) for arrived in batch]
        for arrived in batch:
            failpoint("before-recording", decode_id(arrived.value))
        if in_transaction:
            last = {arrived.partition: arrived.offset for arrived in batch}

            def send_offsets(last: dict[int, int] = last, group: Any = group) -> None:
                late = settings.group_metadata is GroupMetadata.AT_COMMIT
                # the mistake: polling again to stay in the group, and then taking the metadata of the new generation
                metadata = rejoined(consumer, settings.session_timeout_ms // 4) if late else group
                producer.send_offsets_to_transaction(offsets_after(stage.topic_in, last), metadata)

            if not sender.commit(messages, before_commit=send_offsets):
                rewind(consumer, batch)
                continue
        else:
            while not sender.send(messages) and stage.settings.producer.resend:
                pass
        for arrived in batch:
            failpoint("before-commit", decode_id(arrived.value))
        if settings.position is SavePosition.AFTER_RECORDING:
            save(stage, ledger, consumer, batch)
        for arrived in batch:
            failpoint("after-commit", decode_id(arrived.value))


if __name__ == "__main__":
    run_stage(process)
