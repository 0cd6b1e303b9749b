"""A static member: it keeps its place in the group from one life to the next. ``books``: it books
each order, then saves its position. ``saves``: the other way round. Knows nothing of lostack.
"""

import json
import os
import sqlite3
import sys

from confluent_kafka import Consumer

path, first = sys.argv[1:]
database = sqlite3.connect(path, timeout=30)
database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT)")
consumer = Consumer(
    {
        "bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"],
        "group.id": "billing",
        "group.instance.id": f"booker-{os.environ['LOSTACK_MEMBER']}",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
)


def book(message):
    """Book one order."""
    with database:
        database.execute("INSERT INTO orders VALUES (?)", (json.loads(message.value())["order"],))


consumer.subscribe(["orders"])
while True:
    message = consumer.poll(0.2)
    if message is None or message.error():
        continue
    if first == "books":
        book(message)
    consumer.commit(message=message, asynchronous=False)
    if first == "saves":
        book(message)
