"""Record orders, a few at a time, then commit. Knows nothing of lostack.

Told to end (SIGTERM), it leaves a note for its successor from where to go on. ``right``: when the
orders in hand are recorded. ``early``: before that.
"""

import json
import os
import signal
import sqlite3
import sys
from pathlib import Path

from kafka import KafkaConsumer, TopicPartition

work, how = Path(sys.argv[1]), sys.argv[2]
note, place, ending = work / "goes-on-at", TopicPartition("orders", 0), []
signal.signal(signal.SIGTERM, lambda *_: ending.append(True))
database = sqlite3.connect(work / "orders.db")
database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT)")
consumer = KafkaConsumer(
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
    group_id="billing",
    enable_auto_commit=False,
    auto_offset_reset="earliest",
)
consumer.assign([place])
if note.exists():
    consumer.seek(place, int(note.read_text()))
    note.unlink()


def record(messages):
    """Record orders."""
    with database:
        for message in messages:
            order = json.loads(message.value)["order"]
            database.execute("INSERT INTO orders VALUES (?)", (order,))


while True:
    messages = consumer.poll(timeout_ms=100, max_records=4).get(place, [])
    if how == "right":
        record(messages)
    if ending and messages:
        note.write_text(str(messages[-1].offset + 1))
    if messages and (how == "right" or ending):
        consumer.commit()
    if how == "early":
        record(messages)  # the mistake: the note and the position say that this is done
        if messages and not ending:
            consumer.commit()
    if ending:
        sys.exit(0)
