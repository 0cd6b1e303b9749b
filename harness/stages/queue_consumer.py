"""The consumer stage on a queue: queue → database. The semantic decides when each message is
acknowledged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from harness.failpoint import failpoint
from harness.model import kinds
from harness.model.record import decode, decode_id
from harness.stages.clients import queue_client_of
from harness.stages.clients.interface import ClientError
from harness.stages.consumer_settings import SavePosition
from harness.stages.recording import work
from harness.stages.sinks.interface import Copy
from harness.stages.sinks.opening import open_sink
from harness.stages.stage import Stage, run_stage

if TYPE_CHECKING:
    from harness.model.writing import LedgerWriter
    from harness.stages.clients.queues import QueueConsumer, Received, Refuses

RECEIVE_S = 1.0


class Work:
    """Works on each message, and acknowledges or refuses it as the semantic requires."""

    def __init__(self, stage: Stage, ledger: LedgerWriter, consumer: QueueConsumer) -> None:
        self._settings = stage.settings.consumer
        self._ledger = ledger
        self._consumer = consumer
        self._sink = open_sink(stage.sink, name=stage.client_id, durable=self._settings.durable)
        self._poisoned: set[str | None] = set()
        self._aside: dict[str, Received] = {}
        """The messages that are put off, by the broker's name for them, which a redelivered message
        keeps.
        """

    def on(self, given: Received) -> None:
        """Work on a message, or put it off."""
        if _is_odd(given, self._settings.push.puts_off):
            self._aside[given.name] = given
        else:
            self._work(given)

    def rest(self) -> None:
        """Work on the messages that were put off, because no others have come."""
        while self._aside:
            self._work(self._aside.pop(next(iter(self._aside))))

    def _work(self, given: Received) -> None:
        position = self._settings.position
        if position is SavePosition.BEFORE_WORK and not self._acknowledged(given):
            # what is not known to be taken off the queue is not worked on: it may come again
            return
        if not self._done(given):
            if position is SavePosition.AFTER_RECORDING:
                self._refuse(given)
            return
        if position is SavePosition.AFTER_RECORDING:
            self._acknowledged(given)
        failpoint("after-commit", decode_id(given.value))

    def _acknowledged(self, given: Received) -> bool:
        """Acknowledge a message. If that fails, its connection is lost, and the broker gives the
        messages put off again.
        """
        taken = acknowledged(self._ledger, self._consumer, given)
        if not taken:
            self._aside.clear()
        return taken

    def _done(self, given: Received) -> bool:
        record = decode_id(given.value)
        if record not in self._poisoned and work(
            self._sink,
            given.value,
            None,
            Copy(name=given.name),
            idempotent=self._settings.idempotent,
        ):
            return True
        if self._settings.share.poisoned:
            self._poisoned.add(record)
        return False

    def _refuse(self, given: Received) -> None:
        how, problem = "reject" if self._settings.share.rejects else "release", None
        try:
            cast("Refuses", self._consumer).refuse(given, for_good=self._settings.share.rejects)
        except ClientError as raised:
            problem = str(raised)
        self._ledger.write(kinds.SAVED, record=decode_id(given.value), error=problem, how=how)


def consume(stage: Stage, ledger: LedgerWriter) -> None:
    """Record every message that arrives, until the program is killed."""
    consumer = queue_client_of(stage).make_consumer(stage)
    work_ = Work(stage, ledger, consumer)
    consumer.subscribe(stage.topic_in)
    ledger.write(kinds.READY, role="consumer")
    while True:
        given = consumer.receive(RECEIVE_S)
        if given is None:
            work_.rest()
        else:
            ledger.write(
                kinds.DELIVERED, record=decode_id(given.value), redelivered=given.redelivered
            )
            work_.on(given)


def acknowledged(ledger: LedgerWriter, consumer: QueueConsumer, given: Received) -> bool:
    """Acknowledge a message, and write that into the ledger; return whether the broker has
    confirmed it.
    """
    problem = None
    try:
        consumer.acknowledge(given)
    except ClientError as raised:
        problem = str(raised)
    ledger.write(kinds.SAVED, record=decode_id(given.value), error=problem)
    return problem is None


def _is_odd(given: Received, up_to: int) -> bool:
    payload = decode(given.value)
    return payload is not None and payload.position <= up_to and payload.position % 2 == 1


if __name__ == "__main__":
    run_stage(consume)
