"""Record orders in batches, one every 4 s, each with the positions behind it, which Kafka is told
nothing of.
"""

import json
import os
import sqlite3
import sys
import time

from kafka import KafkaConsumer, TopicPartition

database = sqlite3.connect(sys.argv[1])
database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT, customer TEXT)")
database.execute(
    "CREATE TABLE IF NOT EXISTS positions (part INTEGER PRIMARY KEY, position INTEGER)"
)
consumer = KafkaConsumer(
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
    enable_auto_commit=False,
    auto_offset_reset="earliest",
)
partitions = [TopicPartition("orders", number) for number in range(3)]
consumer.assign(partitions)
for part, position in database.execute("SELECT part, position FROM positions").fetchall():
    consumer.seek(partitions[part], position)
batch, due = [], time.monotonic() + 4
while True:
    for messages in consumer.poll(timeout_ms=100).values():
        batch += messages
    if time.monotonic() < due:
        continue
    with database:
        for message in batch:
            order = json.loads(message.value)
            database.execute(
                "INSERT INTO orders VALUES (?, ?)", (order["order"], order["customer"])
            )
            database.execute(
                "INSERT OR REPLACE INTO positions VALUES (?, ?)",
                (message.partition, message.offset + 1),
            )
    batch, due = [], time.monotonic() + 4
