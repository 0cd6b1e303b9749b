"""The consumer stage: topic → database. The semantic decides when and where the
position is saved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.failpoint import failpoint
from harness.model import kinds
from harness.model.record import decode_id
from harness.stages.clients import client_of
from harness.stages.consumer_settings import GroupProtocol, SavePosition
from harness.stages.consuming import Unsaved, batches, save_until_confirmed, subscribe
from harness.stages.recording import work
from harness.stages.sharing import share
from harness.stages.sinks.interface import Copy, SinkLostError
from harness.stages.sinks.opening import open_sink
from harness.stages.stage import Stage, run_stage

if TYPE_CHECKING:
    from harness.model.writing import LedgerWriter
    from harness.stages.clients.interface import Delivered
    from harness.stages.sinks.interface import Sink


def consume(stage: Stage, ledger: LedgerWriter) -> None:
    """Record every record that arrives, until the program is killed."""
    settings = stage.settings.consumer
    sink = open_sink(stage.sink, name=stage.client_id, durable=settings.durable)
    if settings.protocol is GroupProtocol.SHARE:
        share(stage, ledger, sink)
        return
    consumer = client_of(stage).make_consumer(stage)
    with_result = settings.position is SavePosition.WITH_RESULT
    unsaved = Unsaved(stage, ledger, consumer)
    subscribe(stage, ledger, consumer, sink.positions if with_result else None, unsaved.given_anew)
    for batch in batches(stage, ledger, consumer, unsaved.again):
        if settings.position is SavePosition.BEFORE_WORK and not save_until_confirmed(
            stage, ledger, consumer, batch
        ):
            continue
        for message in batch:
            _work_until_known(stage, ledger, sink, message)
        if settings.position is SavePosition.AFTER_RECORDING:
            unsaved.save(batch)
        for message in batch:
            failpoint("after-commit", decode_id(message.value))


def _work_until_known(stage: Stage, ledger: LedgerWriter, sink: Sink, message: Delivered) -> None:
    """Do the work of one record, with new connections if needed. After one lost in a COMMIT, the
    semantic decides what next.
    """
    settings = stage.settings.consumer
    key = message.key.decode("ascii", "replace") if message.key else None
    copy = Copy(message.partition, message.leader_epoch, message.offset)
    position = (
        (message.partition, message.offset + 1)
        if settings.position is SavePosition.WITH_RESULT
        else None
    )
    while True:
        try:
            work(sink, message.value, key, copy, idempotent=settings.idempotent, position=position)
        except SinkLostError as lost:
            if lost.in_doubt:
                ledger.write(kinds.DOUBT, record=decode_id(message.value), error=str(lost))
            sink.reconnect()
            if lost.in_doubt and not _again(stage, ledger, sink, message):
                return
        else:
            return


def _again(stage: Stage, ledger: LedgerWriter, sink: Sink, message: Delivered) -> bool:
    """Return whether to do a record's work again if its COMMIT has an unknown outcome."""
    match stage.settings.consumer.position:
        case SavePosition.BEFORE_WORK:  # at most once
            return False
        case SavePosition.WITH_RESULT:  # the position was in the transaction: it tells
            position = sink.positions().get(message.partition, 0)
            ledger.write(
                kinds.RESUMED, where=stage.group, partition=message.partition, position=position
            )
            return position <= message.offset
        case _:  # at least once; the idempotent one recognises what is there
            return True


if __name__ == "__main__":
    run_stage(consume)
