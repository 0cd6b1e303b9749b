"""Take as many orders as there are, record all of them, commit the position behind the last. Knows
nothing of lostack.
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
    max_poll_records=500,
)
batch = []
while True:
    polled = consumer.poll(timeout_ms=1500)  # it collects until nothing comes for a while
    for messages in polled.values():
        batch += messages
    if polled or not batch:
        time.sleep(0.5)
        continue
    with database:
        for order in (json.loads(message.value) for message in batch):
            database.execute(
                "INSERT INTO orders VALUES (?, ?)", (order["order"], order["customer"])
            )
    consumer.commit()
    batch = []
