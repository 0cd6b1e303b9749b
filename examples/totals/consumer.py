"""Add each payment up for its customer, then commit the position. Knows nothing of lostack."""

import json
import os
import sqlite3
import sys

from kafka import KafkaConsumer

database = sqlite3.connect(sys.argv[1])
database.execute("CREATE TABLE IF NOT EXISTS totals (customer TEXT PRIMARY KEY, cents INTEGER)")
database.execute("CREATE TABLE IF NOT EXISTS booked (cents INTEGER)")
consumer = KafkaConsumer(
    "orders",
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
    group_id="totals",
    enable_auto_commit=False,
    auto_offset_reset="earliest",
)
for message in consumer:
    payment = json.loads(message.value)
    with database:
        database.execute(
            (
                "INSERT INTO totals VALUES (?, ?) ON CONFLICT (customer) DO UPDATE SET cents = "
                "cents + excluded.cents"
            ),
            (payment["customer"], payment["cents"]),
        )
        database.execute("INSERT INTO booked VALUES (?)", (payment["cents"],))
    consumer.commit()
