"""Book each order. The position is saved when the orders before it are booked, not earlier."""

import json
import os
import sqlite3
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from kafka import KafkaConsumer

DATABASE = sys.argv[1]


def book(order):
    """Ask a slow service, then write the order into the database."""
    time.sleep(0.15)
    database = sqlite3.connect(DATABASE)
    with database:
        database.execute("INSERT OR IGNORE INTO orders VALUES (?)", (order["order"],))
    database.close()


sqlite3.connect(DATABASE).execute("CREATE TABLE IF NOT EXISTS orders (number TEXT PRIMARY KEY)")
consumer = KafkaConsumer(
    "orders",
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
    group_id="booking",
    auto_offset_reset="earliest",
    enable_auto_commit=False,
)
with ThreadPoolExecutor(max_workers=1) as worker:
    while True:
        batches = consumer.poll(timeout_ms=1000, max_records=4).values()
        orders = [json.loads(message.value) for batch in batches for message in batch]
        list(worker.map(book, orders))
        if orders:
            consumer.commit()
