"""Record every order once within a window of 3 s, in one transaction with its id. Knows nothing of
lostack.
"""

import json
import os
import sqlite3
import sys
import time

from kafka import KafkaConsumer

database = sqlite3.connect(sys.argv[1])
database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT, customer TEXT)")
database.execute("CREATE TABLE IF NOT EXISTS seen (number TEXT PRIMARY KEY, at REAL)")
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
        database.execute("DELETE FROM seen WHERE at < ?", (time.time() - 3,))
        if database.execute(
            "INSERT OR IGNORE INTO seen VALUES (?, ?)", (order["order"], time.time())
        ).rowcount:
            database.execute(
                "INSERT INTO orders VALUES (?, ?)", (order["order"], order["customer"])
            )
    consumer.commit()
