"""Mark an order as seen, then record it, in two transactions of a database with a write-ahead log.
Knows nothing of lostack.
"""

import json
import os
import sqlite3
import sys

from kafka import KafkaConsumer

database = sqlite3.connect(sys.argv[1])
database.execute("PRAGMA journal_mode = WAL")
database.execute("PRAGMA synchronous = NORMAL")
database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT, customer TEXT)")
database.execute("CREATE TABLE IF NOT EXISTS seen (number TEXT PRIMARY KEY)")
consumer = KafkaConsumer(
    "orders",
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
    group_id="billing",
    enable_auto_commit=False,
    auto_offset_reset="earliest",
)
for message in consumer:
    order = json.loads(message.value)
    with database:
        new = database.execute("INSERT OR IGNORE INTO seen VALUES (?)", (order["order"],)).rowcount
    if new:
        with database:
            database.execute(
                "INSERT INTO orders VALUES (?, ?)", (order["order"], order["customer"])
            )
    consumer.commit()
