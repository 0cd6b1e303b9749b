"""Sending with a ledger: every attempt has a name, and the outcome that the client reported is
written down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.model import kinds
from harness.model.record import ATTEMPT_HEADER
from harness.stages.clients.interface import ClientError, Meaning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from harness.model.writing import LedgerWriter
    from harness.stages.clients.interface import Pending, Producer
    from harness.stages.stage import Stage

TOLD_S = 70.0
"""How many seconds a client may take to report a record's outcome: longer than any delivery
time-out in a cell.
"""


@dataclass(frozen=True, slots=True)
class Message:
    """One message to send. ``record`` is the id of the record that it carries; ``None`` for a
    cursor.
    """

    topic: str
    record: str | None
    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()


class Sender:
    """Sends units of messages with one producer, with or without transactions."""

    def __init__(self, stage: Stage, ledger: LedgerWriter, producer: Producer, *, hop: str) -> None:
        self.stage = stage
        self.ledger = ledger
        self.producer = producer
        self.hop = hop
        self.transaction = 0
        self._attempt = 0
        self._silent = stage.settings.producer.acks == 0

    def send(self, messages: Iterable[Message]) -> bool:
        """Send a unit and wait for the outcome of each message; return true if all were
        acknowledged.
        """
        if self.stage.settings.producer.in_step:
            return all(self._await(message, *self._offer(message)) for message in messages)
        waiting = [(message, *self._offer(message)) for message in messages]
        outcomes = [self._await(message, attempt, future) for message, attempt, future in waiting]
        return all(outcomes)

    def commit(
        self, messages: Iterable[Message], *, before_commit: Callable[[], None] | None = None
    ) -> bool:
        """Send a unit in one transaction.

        Raises:
            ClientError: the client is fenced, or cannot continue.
        """
        name = self._begin()
        try:
            if self.send(messages):
                if before_commit:
                    before_commit()
                self.producer.commit()
                self.ledger.write(
                    kinds.TRANSACTION, transaction=name, outcome="committed", error=None
                )
                return True
        except ClientError as error:
            fenced = error.meaning is Meaning.FENCED
            outcome = "fenced" if fenced else "unknown"
            self.ledger.write(
                kinds.TRANSACTION, transaction=name, outcome=outcome, error=error.name
            )
            if fenced:
                raise
        self._abort(name)
        return False

    def rehearse(self, messages: Iterable[Message]) -> bool:
        """Send a unit in one transaction and abort it; return false if the client
        cannot continue.
        """
        name = self._begin()
        self.send(messages)
        return self._abort(name)

    def _begin(self) -> str:
        self.transaction += 1
        name = f"{self.stage.writer}.{self.transaction}"
        self.ledger.write(kinds.TRANSACTION, transaction=name, outcome="begun", error=None)
        self.producer.begin()
        return name

    def _abort(self, name: str) -> bool:
        try:
            self.producer.abort()
        # this client cannot go on; its successor ends the transaction by its own beginning
        except ClientError as error:
            self.ledger.write(
                kinds.TRANSACTION, transaction=name, outcome="unknown", error=error.name
            )
            return False
        self.ledger.write(kinds.TRANSACTION, transaction=name, outcome="aborted", error=None)
        return True

    def _offer(self, message: Message) -> tuple[str, Pending | ClientError]:
        self._attempt += 1
        attempt = f"{self.stage.writer}.{self.transaction}.{self._attempt}"
        headers = [*message.headers, (ATTEMPT_HEADER, attempt.encode())]
        try:
            return attempt, self.producer.send(message.topic, message.value, message.key, headers)
        except ClientError as error:  # a client may raise at once what it would else tell later
            return attempt, error

    def _await(self, message: Message, attempt: str, pending: Pending | ClientError) -> bool:
        try:
            if isinstance(pending, ClientError):
                raise pending
            told = pending.wait(TOLD_S)
        except ClientError as error:
            refused = error.meaning in {Meaning.NEVER_APPENDED, Meaning.FENCED}
            self._say(
                kinds.REFUSED if refused else kinds.UNKNOWN, message, attempt, error=str(error)
            )
            return False
        if not self._silent:
            where = {} if told is None else {"partition": told.partition, "offset": told.offset}
            self._say(kinds.ACKED, message, attempt, **where)
        return True

    def _say(self, kind: str, message: Message, attempt: str, **fields: object) -> None:
        if message.record is not None:
            self.ledger.write(kind, record=message.record, attempt=attempt, hop=self.hop, **fields)
