"""Record every order in a database, and commit its position after that, or before. Knows nothing of
lostack.
"""

import json
import sqlite3
import sys

from confluent_kafka import Consumer
from settings import CLIENT

database = sqlite3.connect(sys.argv[1])
database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT, customer TEXT)")
consumer = Consumer(
    {**CLIENT, "group.id": "billing", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
)
consumer.subscribe(["orders"])
hasty = "--commit-first" in sys.argv
while True:
    message = consumer.poll(1.0)
    if message is None or message.error():
        continue
    order = json.loads(message.value())
    if hasty:
        consumer.commit(message, asynchronous=False)
    with database:
        database.execute("INSERT INTO orders VALUES (?, ?)", (order["order"], order["customer"]))
    if not hasty:
        consumer.commit(message, asynchronous=False)
