"""Record every order, then commit its position. ``swaps``: one order is put aside, and done behind
the next of its key.

It stands for a program that tries failed work again later.
"""

import json
import os
import sqlite3
import sys

from kafka import KafkaConsumer

PUT_ASIDE = 3
"""Of the first key: which of its orders."""
SWAPS = sys.argv[2] == "swaps"
database = sqlite3.connect(sys.argv[1])
database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT, customer TEXT)")
consumer = KafkaConsumer(
    "orders",
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
    group_id="billing",
    enable_auto_commit=False,
    auto_offset_reset="earliest",
)


def record(order):
    """Add a row, and wait until it is on the disk."""
    with database:
        database.execute("INSERT INTO orders VALUES (?, ?)", (order["order"], order["customer"]))


customer, seen, aside = None, 0, None
for message in consumer:
    order = json.loads(message.value)
    customer = customer or order["customer"]
    if order["customer"] == customer:
        seen += 1
        if SWAPS and seen == PUT_ASIDE:
            aside = order
            continue
    record(order)
    if aside and order["customer"] == customer:
        record(aside)
        print("aside", aside["order"], flush=True)
        aside = None
    if not aside:
        consumer.commit()
