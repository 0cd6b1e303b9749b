"""How the consumer stage reads as a member of a share group: each record is locked for it, and it
answers for each record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from harness.failpoint import failpoint
from harness.model import kinds
from harness.model.places import in_log
from harness.model.record import decode_id
from harness.stages.clients import client_of
from harness.stages.clients.interface import Answer, ClientError
from harness.stages.consumer_settings import SavePosition
from harness.stages.consuming import COMMIT_S
from harness.stages.recording import work
from harness.stages.sinks.interface import Copy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.model.writing import LedgerWriter
    from harness.stages.clients.interface import Delivered, Sharer, Sharing
    from harness.stages.sinks.interface import Sink
    from harness.stages.stage import Stage

POLL_S = 0.05
"""Seconds of a poll. It is short: a poll that gets only a transaction's marker fetches no more
until its end (Kafka 4.3.0).
"""


def share(stage: Stage, ledger: LedgerWriter, sink: Sink) -> None:
    """Record every record that arrives, until the program is killed."""
    reader = Reader(stage, ledger, sink)
    for batch in reader.batches():
        if stage.settings.consumer.position is SavePosition.BEFORE_WORK:
            if reader.answered(batch, dict.fromkeys(batch, Answer.ACCEPT)):
                for message in batch:
                    reader.work(message)
        else:
            reader.answered(batch, {message: reader.work(message) for message in batch})
        for message in batch:
            failpoint("after-commit", decode_id(message.value))


class Reader:
    """A reader of the stage's share group."""

    def __init__(self, stage: Stage, ledger: LedgerWriter, sink: Sink) -> None:
        self._settings = stage.settings.consumer
        self._topic = stage.topic_in
        self._ledger = ledger
        self._sink = sink
        self._sharer: Sharer = cast("Sharing", client_of(stage)).make_sharer(stage)
        self._poisoned: set[str | None] = set()

    def batches(self) -> Iterator[list[Delivered]]:
        """Join the group; yield the records of each poll that brought any, endlessly."""
        self._sharer.subscribe(self._topic)
        batch = self._sharer.poll(POLL_S)
        self._ledger.write(kinds.READY, role="consumer")
        while True:
            for message in batch:
                self._ledger.write(
                    kinds.DELIVERED,
                    record=decode_id(message.value),
                    redelivered=message.deliveries > 1,
                    place=_place(message),
                )
            if batch:
                yield batch
            batch = self._sharer.poll(POLL_S)

    def answered(self, batch: list[Delivered], answers: dict[Delivered, Answer]) -> bool:
        """Send the answers for records; return false if it is unknown whether the broker has taken
        them.

        A record whose lock has expired no longer belongs to this reader.
        """
        if self._settings.share.implicit:
            return True  # the next poll says it
        problem = None
        try:
            for message in batch:
                self._sharer.answer(message, answers[message])
            self._sharer.commit(COMMIT_S)
        except ClientError as raised:
            problem = raised
        for message in batch:
            self._ledger.write(
                kinds.SAVED,
                record=decode_id(message.value),
                how=str(answers[message]).lower(),
                error=problem and str(problem),
            )
        return problem is None

    def work(self, message: Delivered) -> Answer:
        """Do the work of one record; return the answer for it."""
        record, settings = decode_id(message.value), self._settings
        key = message.key.decode("ascii", "replace") if message.key else None
        copy = Copy(name=_place(message))
        if record not in self._poisoned and work(
            self._sink, message.value, key, copy, idempotent=settings.idempotent
        ):
            return Answer.ACCEPT
        if settings.share.poisoned:
            self._poisoned.add(record)
        return Answer.REJECT if settings.share.rejects else Answer.RELEASE


def _place(message: Delivered) -> str | None:
    return in_log(message.partition, message.leader_epoch, message.offset)
