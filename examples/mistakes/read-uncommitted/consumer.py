"""The mistake: what a transaction has written is recorded before anybody knows whether it will be
committed.
"""

import json
import os
import sqlite3
import sys

from confluent_kafka import Consumer

database = sqlite3.connect(sys.argv[1])
database.execute("CREATE TABLE IF NOT EXISTS orders (place TEXT PRIMARY KEY, number TEXT)")
consumer = Consumer(
    {
        "bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"],
        "group.id": "billing",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_uncommitted",
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
        place = f"{message.partition()}/{message.offset()}"
        database.execute("INSERT OR IGNORE INTO orders VALUES (?, ?)", (place, order["order"]))
    consumer.commit(message, asynchronous=False)
