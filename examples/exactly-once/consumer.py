"""Record every order that is committed once, however often it is delivered. Knows nothing of
lostack.
"""

import json
import os
import sqlite3
import sys

from confluent_kafka import Consumer

database = sqlite3.connect(sys.argv[1])
database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT PRIMARY KEY, customer TEXT)")
consumer = Consumer(
    {
        "bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"],
        "group.id": "billing",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    }
)
consumer.subscribe(["orders"])
while True:
    message = consumer.poll(1.0)
    if message is None:
        continue
    if message.error():
        print(message.error(), file=sys.stderr)
        continue
    order = json.loads(message.value())
    with database:
        database.execute(
            "INSERT OR IGNORE INTO orders VALUES (?, ?)", (order["order"], order["customer"])
        )
    consumer.commit(message, asynchronous=False)
