"""Book orders one by one, but every tenth together with the one after it. Knows nothing of lostack.

HOW: ``behind`` saves the position of what is booked; ``ahead`` saves that of both when the first of
them is booked.
"""

import json
import os
import sqlite3
import sys

from confluent_kafka import Consumer

path, how = sys.argv[1:]
database = sqlite3.connect(path, timeout=30)
database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT)")
consumer = Consumer(
    {
        "bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"],
        "group.id": "billing",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
)


def book(message):
    """Book an order."""
    with database:
        number = json.loads(message.value())["order"]
        database.execute("INSERT INTO orders VALUES (?)", (number,))


consumer.subscribe(["orders"])
while True:
    first, *others = consumer.consume(1, 0.3) or [None]
    if first is None or first.error():
        continue
    if (first.offset() + 1) % 10 == 0:
        others = [each for each in consumer.consume(1, 2.0) if not each.error()]
    book(first)
    for second in others:
        if how == "ahead":
            consumer.commit(message=second, asynchronous=False)
        book(second)
    consumer.commit(message=[first, *others][-1], asynchronous=False)
