"""The consumer stage: topic → database, with the position saved where the semantic says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.core.record import decode_id
from harness.core.settings import SavePosition
from harness.failpoint import failpoint
from harness.programs.clients import client_of
from harness.programs.consuming import batches, save, save_until_confirmed, subscribe
from harness.programs.stage import Stage, run_stage
from harness.sinks.database import Copy, DatabaseSink

if TYPE_CHECKING:
    from harness.core.history import HistoryWriter
    from harness.programs.clients.interface import Delivered


def consume(stage: Stage, ledger: HistoryWriter) -> None:
    """Record everything that arrives, until stopped."""
    settings = stage.settings.consumer
    sink = DatabaseSink(Path(stage.sink))
    consumer = client_of(stage).make_consumer(stage)
    with_result = settings.position is SavePosition.WITH_RESULT
    subscribe(stage, ledger, consumer, sink.positions if with_result else None)
    for batch in batches(stage, ledger, consumer):
        if settings.position is SavePosition.BEFORE_WORK and not save_until_confirmed(stage, ledger, consumer, batch):
            continue
        for message in batch:
            _work(sink, message, settings.position, idempotent=settings.idempotent)
        if settings.position is SavePosition.AFTER_RECORDING:
            save(stage, ledger, consumer, batch)
        for message in batch:
            failpoint("after-commit", decode_id(message.value))


def _work(sink: DatabaseSink, message: Delivered, position: SavePosition, *, idempotent: bool) -> None:
    """Process one record and record its result, in one database transaction."""
    record = decode_id(message.value)
    failpoint("before-processing", record)
    result, key = message.value, message.key.decode("ascii", "replace") if message.key else None
    failpoint("before-recording", record)
    copy = Copy(message.partition, message.leader_epoch, message.offset)
    sink.begin()
    if not (idempotent and record is not None and sink.absorb(record, copy)):
        sink.record(result, key, copy)
    if position is SavePosition.WITH_RESULT:
        sink.save_position(message.partition, message.offset + 1)
    failpoint("before-database-commit", record)
    sink.commit()
    failpoint("after-database-commit", record)
    failpoint("before-commit", record)


if __name__ == "__main__":
    run_stage(consume)
