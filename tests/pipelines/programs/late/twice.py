"""Record every order, commit its position, and record it once more 3 s later. Knows nothing of
lostack.
"""

import json
import os
import sqlite3
import sys
import threading

from kafka import KafkaConsumer


def record(order):
    """Record an order."""
    with sqlite3.connect(sys.argv[1], timeout=30) as database:
        database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT, customer TEXT)")
        database.execute("INSERT INTO orders VALUES (?, ?)", (order["order"], order["customer"]))


consumer = KafkaConsumer(
    "orders",
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
    group_id="billing",
    enable_auto_commit=False,
    auto_offset_reset="earliest",
)
for message in consumer:
    seen = json.loads(message.value)
    record(seen)
    consumer.commit()
    threading.Timer(3, record, [seen]).start()
