"""The producer stage: outbox → topic, with the cursor saved where the semantic says."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from harness.core import events as kinds
from harness.core.settings import SaveCursor
from harness.failpoint import failpoint
from harness.programs.clients import client_of
from harness.programs.clients.interface import ClientError
from harness.programs.sending import Message, Sender
from harness.programs.stage import Stage, run_stage
from harness.sources.outbox import Outbox

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.core.history import HistoryWriter
    from harness.core.record import Record
    from harness.programs.clients.interface import Producer


def produce(stage: Stage, ledger: HistoryWriter) -> None:
    """Send everything from the cursor on."""
    settings = stage.settings.producer
    outbox = Outbox(Path(stage.outbox))
    client = client_of(stage)

    def begin() -> tuple[Producer, int]:
        """Make a producer; return it, and from where it goes on."""
        producer = client.make_producer(stage, transactional_id=f"{stage.key}-producer")
        if settings.transactional:
            producer.init_transactions()
        in_topic = settings.cursor is SaveCursor.IN_TRANSACTION
        cursor = int(client.last_committed(stage, stage.topic_cursor) or b"1") if in_topic else outbox.cursor()
        ledger.write(kinds.RESUMED, where="source", partition=None, position=cursor)
        return producer, cursor

    producer, cursor = begin()
    ledger.write(kinds.READY, role="producer")
    sender = Sender(stage, ledger, producer, hop="topic")
    dice = random.Random(stage.seed)
    while not _send_from(cursor, stage, sender, outbox, dice):
        # The client has given up. kafka-python 3.0.12 does not come back from that with idempotence on: it waits for ever,
        # or sends a sequence number that the broker refuses. A new producer does, and ends a transaction left open.
        with suppress(ClientError):  # it says that something was still under way, which the ledger has
            sender.producer.close(0)
        sender.producer, cursor = begin()
    sender.producer.close(20)


def _send_from(cursor: int, stage: Stage, sender: Sender, outbox: Outbox, dice: random.Random) -> bool:
    """Send everything from the cursor on; false where the client cannot go on."""
    settings = stage.settings.producer
    act = sender.commit if settings.transactional else sender.send
    for unit in _units(outbox.read(cursor), settings.unit):
        after = unit[-1].position + 1
        _taken(sender.ledger, unit)
        if settings.cursor is SaveCursor.BEFORE_SEND:
            outbox.save_cursor(after)
        for record in unit:
            failpoint("before-send", record.id)
        messages = [Message(stage.topic_in, r.id, r.key.encode(), r.encode(stage.key)) for r in unit]
        if settings.cursor is SaveCursor.IN_TRANSACTION:
            messages.append(Message(stage.topic_cursor, None, b"cursor", str(after).encode()))
        while not act(messages) and settings.resend:
            if settings.idempotence:
                return False
            _taken(sender.ledger, unit)
        if settings.cursor in (SaveCursor.AFTER_ACK, SaveCursor.AFTER_COMMIT):
            outbox.save_cursor(after)
        if stage.jitter_ms[1]:
            time.sleep(dice.uniform(*stage.jitter_ms) / 1000)  # load shape drawn from the seed, waits for nothing
    return True


def _taken(ledger: HistoryWriter, unit: list[Record]) -> None:
    for record in unit:
        ledger.write(kinds.TAKEN, record=record.id)


def _units(records: Iterator[Record], size: int) -> Iterator[list[Record]]:
    while unit := list(islice(records, size)):
        yield unit


if __name__ == "__main__":
    run_stage(produce)
