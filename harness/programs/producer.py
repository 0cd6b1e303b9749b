"""The producer stage: outbox → topic, with the cursor saved where the semantic says."""

from __future__ import annotations

import random
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from harness.core import events as kinds
from harness.core.settings import SaveCursor
from harness.failpoint import failpoint
from harness.programs.stage import Stage, run_stage
from harness.sources.outbox import Outbox

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.core.history import HistoryWriter
    from harness.core.record import Record


def produce(stage: Stage, ledger: HistoryWriter) -> None:
    """Send everything from the cursor on."""
    from harness.programs.clients import make_producer, read_cursor  # noqa: PLC0415 - a refusal belongs into the ledger
    from harness.programs.sending import Message, Sender  # noqa: PLC0415

    settings = stage.settings.producer
    outbox = Outbox(Path(stage.outbox))
    producer = make_producer(stage, transactional_id=f"{stage.key}-producer")
    if settings.transactional:
        producer.init_transactions()
    cursor = read_cursor(stage) if settings.cursor is SaveCursor.IN_TRANSACTION else outbox.cursor()
    ledger.write(kinds.RESUMED, where="source", partition=None, position=cursor)
    ledger.write(kinds.READY, role="producer")
    sender = Sender(stage, ledger, producer, hop="topic")
    act = sender.commit if settings.transactional else sender.send
    dice = random.Random(stage.seed)
    for unit in _units(outbox.read(cursor), settings.unit):
        after = unit[-1].position + 1
        _taken(ledger, unit)
        if settings.cursor is SaveCursor.BEFORE_SEND:
            outbox.save_cursor(after)
        for record in unit:
            failpoint("before-send", record.id)
        messages = [Message(stage.topic_in, r.id, r.key.encode(), r.encode(stage.key)) for r in unit]
        if settings.cursor is SaveCursor.IN_TRANSACTION:
            messages.append(Message(stage.topic_cursor, None, b"cursor", str(after).encode()))
        while not act(messages) and settings.resend:
            _taken(ledger, unit)
        if settings.cursor in (SaveCursor.AFTER_ACK, SaveCursor.AFTER_COMMIT):
            outbox.save_cursor(after)
        if stage.jitter_ms[1]:
            time.sleep(dice.uniform(*stage.jitter_ms) / 1000)  # load shape drawn from the seed, waits for nothing
    producer.close(timeout=20)


def _taken(ledger: HistoryWriter, unit: list[Record]) -> None:
    for record in unit:
        ledger.write(kinds.TAKEN, record=record.id)


def _units(records: Iterator[Record], size: int) -> Iterator[list[Record]]:
    while unit := list(islice(records, size)):
        yield unit


if __name__ == "__main__":
    run_stage(produce)
