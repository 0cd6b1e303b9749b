"""Book orders in batches, in two halves. HOW: ``each`` saves its position behind each half, and
``whole`` that of the whole batch behind the first half. Knows nothing of lostack.
"""

import json
import os
import sqlite3
import sys

from confluent_kafka import Consumer, TopicPartition

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


def book(messages):
    """Book some orders."""
    with database:
        for message in messages:
            database.execute(
                "INSERT INTO orders VALUES (?)", (json.loads(message.value())["order"],)
            )


def save(messages):
    """Save the position behind some messages."""
    ends = {}
    for message in messages:
        ends[message.topic(), message.partition()] = message.offset() + 1
    if ends:
        offsets = [TopicPartition(*where, end) for where, end in ends.items()]
        consumer.commit(offsets=offsets, asynchronous=False)


consumer.subscribe(["orders"])
while True:
    batch = [message for message in consumer.consume(100, 0.3) if not message.error()]
    middle = (len(batch) + 1) // 2
    book(batch[:middle])
    save(batch if how == "whole" else batch[:middle])
    book(batch[middle:])
    if how == "each":
        save(batch[middle:])
