"""Book orders in batches, each 5 s after its first one came. Knows nothing of lostack.

The second argument says what it does when partitions are taken away:

- ``books``: it books what it has of them, and saves its position behind that. Right.
- ``forgets``: it throws away what it has of them: whoever has them next reads it again. Right.
- ``saves``: it saves how far it has read, and throws away what it has of them. Wrong.
- ``keeps``: it keeps what it has, and books it when its time has come. Others book it, too.

The third is the assignor: ``range``, which is eager, or ``cooperative-sticky``.
"""

import contextlib
import json
import os
import sqlite3
import sys
import time

from confluent_kafka import Consumer, KafkaException, TopicPartition

EVERY_S = 5.0
path, what, assignor = sys.argv[1:]
database = sqlite3.connect(path, timeout=30)
database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT, customer TEXT)")
batch = []
began = 0.0


def of(message):
    """Return the partition of a message."""
    return message.topic(), message.partition()


def book(partitions=None):
    """Book what has come of some partitions, or of all, and save the positions behind it."""
    done = [each for each in batch if partitions is None or of(each) in partitions]
    if not done:
        return
    with database:
        for each in done:
            order = json.loads(each.value())
            database.execute(
                "INSERT INTO orders VALUES (?, ?)", (order["order"], order["customer"])
            )
    ends = {of(each): each.offset() + 1 for each in done}
    forget(ends)
    positions = [TopicPartition(*partition, offset) for partition, offset in ends.items()]
    with contextlib.suppress(KafkaException):  # others may have these partitions by now
        consumer.commit(offsets=positions, asynchronous=False)


def forget(partitions):
    """Forget what has come of some partitions."""
    batch[:] = [each for each in batch if of(each) not in partitions]


def revoked(_, given):
    """Give partitions up."""
    partitions = {(each.topic, each.partition) for each in given}
    if what == "books":
        book(partitions)
    elif what == "forgets":
        forget(partitions)
    elif what == "saves":
        with contextlib.suppress(KafkaException):  # it has read nothing yet
            consumer.commit(asynchronous=False)
        forget(partitions)


consumer = Consumer(
    {
        "bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"],
        "group.id": "billing",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "heartbeat.interval.ms": 500,
        "partition.assignment.strategy": assignor,
    }
)
consumer.subscribe(["orders"], on_revoke=revoked)
while True:
    message = consumer.poll(0.2)
    if message is not None and not message.error():
        began = began if batch else time.monotonic()
        batch.append(message)
    if batch and time.monotonic() - began > EVERY_S:
        book()
