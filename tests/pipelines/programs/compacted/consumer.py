"""Record every order and its position in one transaction; read on from there. Knows nothing of
lostack.

Called with ``count`` it takes offsets for numbers without gaps: where one is missing it takes its
position for wrong, and begins anew at the end.
"""

import json
import os
import sqlite3
import sys

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, TopicPartition

TOPIC = "orders"
database = sqlite3.connect(sys.argv[1])
database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT, customer TEXT)")
database.execute("CREATE TABLE IF NOT EXISTS positions (number INTEGER PRIMARY KEY, next INTEGER)")
expected = dict(database.execute("SELECT number, next FROM positions"))
consumer = Consumer({"bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"], "group.id": "none"})
consumer.assign(
    [
        TopicPartition(TOPIC, number, expected.get(number, OFFSET_BEGINNING))
        for number in range(int(sys.argv[2]))
    ]
)
while True:
    message = consumer.poll(1.0)
    if message is None or message.error():
        continue
    number = message.partition()
    if "count" in sys.argv and message.offset() != expected.get(number, message.offset()):
        del expected[number]
        consumer.seek(TopicPartition(TOPIC, number, OFFSET_END))
        continue
    expected[number] = message.offset() + 1
    with database:
        if message.value() is not None:  # else the customer is forgotten
            order = json.loads(message.value())
            database.execute("INSERT INTO orders VALUES (?, ?)", tuple(order.values()))
        database.execute(
            "INSERT OR REPLACE INTO positions VALUES (?, ?)", (number, expected[number])
        )
