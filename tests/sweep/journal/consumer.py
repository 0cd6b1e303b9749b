"""Write every order into a journal, commit its position, then record it. Right, unless it is killed
while it recovers.

The mistake: who starts takes the journal away before what is in it has been recorded.
"""

import json
import os
import sqlite3
import sys
from pathlib import Path

from kafka import KafkaConsumer, TopicPartition

database, journal = sqlite3.connect(sys.argv[1]), Path(sys.argv[2])
database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT, customer TEXT)")
left = json.loads(journal.read_text()) if journal.exists() else None
journal.unlink(missing_ok=True)
consumer = KafkaConsumer(
    "orders",
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
    group_id="billing",
    enable_auto_commit=False,
    auto_offset_reset="earliest",
)


def record(order: dict[str, str]) -> None:
    """Write an order into the database."""
    with database:
        database.execute("INSERT INTO orders VALUES (?, ?)", (order["order"], order["customer"]))


if left is not None:
    saved = consumer.committed(TopicPartition("orders", left["partition"]))
    if saved is not None and saved > left["offset"]:  # else it comes again
        record(left["order"])
for message in consumer:
    order = json.loads(message.value)
    new = journal.with_suffix(".new")
    with new.open("w") as file:
        json.dump({"partition": message.partition, "offset": message.offset, "order": order}, file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(journal)
    consumer.commit()
    record(order)
    journal.unlink()
