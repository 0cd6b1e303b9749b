"""The consumer stage on a queue: queue → database, each message acknowledged when the semantic says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.failpoint import failpoint
from harness.model import events as kinds
from harness.model.record import decode_id
from harness.stages.clients import queue_client_of
from harness.stages.clients.interface import ClientError
from harness.stages.recording import work
from harness.stages.settings import SavePosition
from harness.stages.sinks.interface import Copy
from harness.stages.sinks.opening import open_sink
from harness.stages.stage import Stage, run_stage

if TYPE_CHECKING:
    from harness.model.history import HistoryWriter
    from harness.stages.clients.queues import Given, QueueConsumer

RECEIVE_S = 1.0


def consume(stage: Stage, ledger: HistoryWriter) -> None:
    """Record everything that arrives, until stopped."""
    settings = stage.settings.consumer
    sink = open_sink(stage.sink, name=stage.client_id, durable=settings.durable)
    consumer = queue_client_of(stage).make_consumer(stage)
    consumer.subscribe(stage.topic_in)
    ledger.write(kinds.READY, role="consumer")
    while True:
        given = consumer.receive(RECEIVE_S)
        if given is None:
            continue
        record = decode_id(given.value)
        ledger.write(kinds.DELIVERED, record=record, redelivered=given.redelivered)
        if settings.position is SavePosition.BEFORE_WORK and not _acknowledged(ledger, consumer, given):
            continue  # what is not known to be taken off the queue is not worked on: it may come again
        work(sink, given.value, None, Copy(name=given.name), idempotent=settings.idempotent)
        if settings.position is SavePosition.AFTER_RECORDING:
            _acknowledged(ledger, consumer, given)
        failpoint("after-commit", record)


def _acknowledged(ledger: HistoryWriter, consumer: QueueConsumer, given: Given) -> bool:
    """Acknowledge a message; whether the broker has said that it took note."""
    problem = None
    try:
        consumer.acknowledge(given)
    except ClientError as raised:
        problem = str(raised)
    ledger.write(kinds.SAVED, record=decode_id(given.value), error=problem)
    return problem is None


if __name__ == "__main__":
    run_stage(consume)
