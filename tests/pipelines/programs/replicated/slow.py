"""Book each order, after some work, then save its position. Knows nothing of lostack."""

import json
import os
import sqlite3
import sys
import time

from confluent_kafka import Consumer

database = sqlite3.connect(sys.argv[1])
database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT)")
consumer = Consumer(
    {
        "bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"],
        "group.id": "billing",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "topic.metadata.refresh.interval.ms": 1000,
    }
)
consumer.subscribe(["orders"])
while True:
    message = consumer.poll(0.2)
    if message is None or message.error():
        continue
    time.sleep(0.15)
    with database:
        number = json.loads(message.value())["order"]
        database.execute("INSERT INTO orders VALUES (?)", (number,))
    consumer.commit(message=message, asynchronous=False)
