"""Record orders in batches of six at most, each with 10 s of work, and commit the position behind
each. Knows nothing of lostack.
"""

import json
import os
import sqlite3
import sys
import time

from kafka import KafkaConsumer

database = sqlite3.connect(sys.argv[1])
database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT, customer TEXT)")
consumer = KafkaConsumer(
    "orders",
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
    group_id="billing",
    enable_auto_commit=False,
    auto_offset_reset="earliest",
)
while True:
    polled = consumer.poll(timeout_ms=1000, max_records=6)
    batch = [json.loads(message.value) for messages in polled.values() for message in messages]
    if not batch:
        continue
    time.sleep(10)
    with database:
        for order in batch:
            database.execute(
                "INSERT INTO orders VALUES (?, ?)", (order["order"], order["customer"])
            )
    consumer.commit()
