"""Book each order in a database that all members share, then save the position behind it.
``once``: an order has one row. ``again``: each time it is another row. Knows nothing of lostack.
"""

import contextlib
import json
import os
import sqlite3
import sys

from confluent_kafka import Consumer, KafkaException

path, how = sys.argv[1:]
key = "PRIMARY KEY" if how == "once" else ""
database = sqlite3.connect(path)
database.execute(f"CREATE TABLE IF NOT EXISTS orders (number TEXT {key})")
consumer = Consumer(
    {
        "bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"],
        "group.id": "billing",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "heartbeat.interval.ms": 500,
        "session.timeout.ms": 6000,
        "max.poll.interval.ms": 6000,
    }
)
consumer.subscribe(["orders"])
while True:
    message = consumer.poll(0.2)
    if message is None or message.error():
        continue
    number = json.loads(message.value())["order"]
    with database:
        database.execute("INSERT OR IGNORE INTO orders VALUES (?)", (number,))
    with contextlib.suppress(KafkaException):  # it may be another's by now
        consumer.commit(message=message, asynchronous=False)
