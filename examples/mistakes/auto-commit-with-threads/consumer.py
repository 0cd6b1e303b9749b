"""The mistake: threads do the work, and the client commits what it has handed out, not what they
have done.
"""

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
    enable_auto_commit=True,
    auto_commit_interval_ms=500,
    auto_offset_reset="earliest",
)
with ThreadPoolExecutor(1) as pool:
    for message in consumer:
        pool.submit(record, json.loads(message.value))
