"""Record every order once; what a crash has left unconfirmed a timer records again, 5 s after the
start, without a look.
"""

import json
import os
import sqlite3
import sys
import threading

from kafka import KafkaConsumer

database = sqlite3.connect(sys.argv[1], timeout=30)
database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT, customer TEXT)")
database.execute("CREATE TABLE IF NOT EXISTS pending (number TEXT, customer TEXT)")


def replay(orders):
    """Record orders that were begun before the start."""
    with sqlite3.connect(sys.argv[1], timeout=30) as other:
        other.executemany("INSERT INTO orders VALUES (?, ?)", orders)
        other.executemany("DELETE FROM pending WHERE number = ?", [order[:1] for order in orders])


threading.Timer(
    5, replay, (database.execute("SELECT number, customer FROM pending").fetchall(),)
).start()
consumer = KafkaConsumer(
    "orders",
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
    group_id="billing",
    enable_auto_commit=False,
    auto_offset_reset="earliest",
)
for message in consumer:
    order = json.loads(message.value)
    row = (order["order"], order["customer"])
    if not database.execute("SELECT 1 FROM orders WHERE number = ?", row[:1]).fetchone():
        with database:
            database.execute("INSERT INTO orders VALUES (?, ?)", row)
            database.execute("INSERT INTO pending VALUES (?, ?)", row)
        consumer.commit()
        with database:
            database.execute("DELETE FROM pending WHERE number = ?", row[:1])
    else:
        consumer.commit()
