"""Save the position behind an order, then book it: at most once. Knows nothing of lostack."""

import json
import os
import sqlite3
import sys

from kafka import KafkaConsumer
from kafka.errors import CommitFailedError

database = sqlite3.connect(sys.argv[1], timeout=30)
database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT, customer TEXT)")
consumer = KafkaConsumer(
    "orders",
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
    group_id="billing",
    enable_auto_commit=False,
    auto_offset_reset="earliest",
    heartbeat_interval_ms=500,
)
while True:
    for messages in consumer.poll(timeout_ms=500, max_records=1).values():
        for message in messages:
            try:
                consumer.commit()
            except CommitFailedError:
                continue  # it is another's by now
            order = json.loads(message.value)
            with database:
                database.execute(
                    "INSERT INTO orders VALUES (?, ?)", (order["order"], order["customer"])
                )
