"""The producer stage: outbox → topic. The semantic decides when and where the cursor is saved."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, cast

from harness.failpoint import failpoint
from harness.model import kinds
from harness.stages.clients import client_of
from harness.stages.clients.interface import ClientError
from harness.stages.gate import pass_gate
from harness.stages.outbox import Outbox
from harness.stages.producer_settings import SaveCursor
from harness.stages.sending import Message, Sender
from harness.stages.stage import Stage, run_stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.model.record import Record
    from harness.model.writing import LedgerWriter
    from harness.stages.clients.interface import Producer
    from harness.stages.clients.queues import TwoPhases

BETWEEN_PHASES = "between-phases"
"""The failpoint that a producer reaches only with the settings of a two-phase commit."""
CLOSE_S = 20.0
"""How many seconds a client may take to close."""


class Producing:
    """A source, a client, and the producer that is in use."""

    def __init__(self, stage: Stage, ledger: LedgerWriter) -> None:
        self._stage = stage
        self._ledger = ledger
        self._settings = stage.settings.producer
        again = None if stage.incarnation == 1 else self._settings.catches_up
        self._unit = again or self._settings.unit
        self._outbox = Outbox(Path(stage.outbox))
        self._gate = Path(stage.gate) if stage.gate and not again else None
        self._client = client_of(stage)
        self._dice = random.Random(stage.seed)
        self._sender = Sender(stage, ledger, self._new_producer(), hop="topic")

    def run(self) -> None:
        """Send every record from the cursor on."""
        cursor = self._cursor()
        self._ledger.write(kinds.READY, role="producer")
        while not self._send_from(cursor):
            # The client has given up. kafka-python 3.0.12 does not come back from that with
            # idempotence on: it waits for ever, or sends a sequence number that the broker refuses.
            # A new producer does, and ends a transaction left open.
            with suppress(
                ClientError
            ):  # it says that something was still under way, which the ledger has
                self._sender.producer.close(0)
            self._sender.producer = self._new_producer()
            cursor = self._cursor()
        self._sender.producer.close(CLOSE_S)

    def _new_producer(self) -> Producer:
        producer = self._client.make_producer(
            self._stage, transactional_id=self._stage.transactional_id
        )
        if self._settings.transactional:
            producer.init_transactions()
        return producer

    def _cursor(self) -> int:
        """Return the position from which to continue."""
        in_topic = self._settings.cursor is SaveCursor.IN_TRANSACTION
        written = (
            self._client.last_committed(self._stage, self._stage.topic_cursor) if in_topic else None
        )
        cursor = int(written or b"1") if in_topic else self._outbox.cursor()
        self._ledger.write(kinds.RESUMED, where="source", partition=None, position=cursor)
        return cursor

    def _send_from(self, cursor: int) -> bool:
        """Send every record from the cursor on; return false if the client cannot continue."""
        for unit in _units(self._outbox.read(cursor), self._unit):
            after = unit[-1].position + 1
            if self._gate and after > self._outbox.last():
                pass_gate(self._gate)
            _taken(self._ledger, unit)
            if self._settings.cursor is SaveCursor.BEFORE_SEND:
                self._outbox.save_cursor(after)
            for record in unit:
                failpoint("before-send", record.id)
            if not self._act(unit):
                return False
            if self._settings.cursor in (SaveCursor.AFTER_ACK, SaveCursor.AFTER_COMMIT):
                self._outbox.save_cursor(after)
            if self._settings.fresh:
                self._sender.producer.close(CLOSE_S)
                self._sender.producer = self._new_producer()
            if self._stage.jitter_ms[1]:
                time.sleep(
                    self._dice.uniform(*self._stage.jitter_ms) / 1000
                )  # load shape drawn from the seed
        return True

    def _act(self, unit: list[Record]) -> bool:
        """Send a unit, as often as the semantic requires; return false if the client cannot
        continue.
        """
        settings, stage = self._settings, self._stage
        messages = [
            Message(stage.topic_in, r.id, r.key.encode(), r.encode(stage.key)) for r in unit
        ]
        if settings.cursor is SaveCursor.IN_TRANSACTION:
            messages.append(
                Message(stage.topic_cursor, None, b"cursor", str(unit[-1].position + 1).encode())
            )
        if settings.aborts_first and not self._sender.rehearse(messages):
            return False
        act = self._sender.commit if settings.transactional else self._sender.send
        if settings.cursor is SaveCursor.BETWEEN_PHASES:
            act = partial(self._sender.commit, before_commit=lambda: self._decide(unit))
        while not act(messages) and settings.resend:
            if settings.idempotence:
                return False
            _taken(self._ledger, unit)
        return True

    def _decide(self, unit: list[Record]) -> None:
        """Let the broker prepare the transaction, and save the decision to commit it."""
        cast("TwoPhases", self._sender.producer).prepare()
        self._outbox.save_cursor(unit[-1].position + 1)
        for record in unit:
            failpoint(BETWEEN_PHASES, record.id)


def produce(stage: Stage, ledger: LedgerWriter) -> None:
    """Run the stage."""
    Producing(stage, ledger).run()


def _taken(ledger: LedgerWriter, unit: list[Record]) -> None:
    for record in unit:
        ledger.write(kinds.TAKEN, record=record.id)


def _units(records: Iterator[Record], size: int) -> Iterator[list[Record]]:
    while unit := list(islice(records, size)):
        yield unit


if __name__ == "__main__":
    run_stage(produce)
