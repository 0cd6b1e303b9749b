"""Threads do the work, and what is committed is what they have done."""

import json
import os
import sqlite3
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from kafka import KafkaConsumer


def record(order):
    """Ask a slow service, then record the order."""
    time.sleep(0.2)
    database = sqlite3.connect(sys.argv[1])
    with database:
        database.execute("INSERT INTO orders VALUES (?, ?)", (order["order"], order["customer"]))
    database.close()


sqlite3.connect(sys.argv[1]).execute(
    "CREATE TABLE IF NOT EXISTS orders (number TEXT, customer TEXT)"
)
consumer = KafkaConsumer(
    "orders",
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
    group_id="billing",
    enable_auto_commit=False,
    auto_offset_reset="earliest",
)
with ThreadPoolExecutor(1) as pool:
    while True:
        batches = consumer.poll(timeout_ms=500, max_records=4)
        orders = [json.loads(message.value) for batch in batches.values() for message in batch]
        list(pool.map(record, orders))
        if orders:
            consumer.commit()
