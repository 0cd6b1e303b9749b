"""Enter an order by its number, then fill in the rest; what is there already is passed over. Knows
nothing of lostack.
"""

import json
import os
import sqlite3
import sys

from kafka import KafkaConsumer

database = sqlite3.connect(sys.argv[1])
database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT PRIMARY KEY, customer TEXT)")
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
        new = database.execute(
            "INSERT OR IGNORE INTO orders (number) VALUES (?)", (order["order"],)
        ).rowcount
    if new:
        with database:
            database.execute(
                "UPDATE orders SET customer = ? WHERE number = ?",
                (order["customer"], order["order"]),
            )
    consumer.commit()
