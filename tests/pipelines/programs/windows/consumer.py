"""Add each payment up for its customer and second, and commit the position: after that, or first.
Knows nothing of lostack.
"""

import json
import os
import sqlite3
import sys

from kafka import KafkaConsumer

database = sqlite3.connect(sys.argv[1])
database.execute(
    "CREATE TABLE IF NOT EXISTS sums (customer, second, cents, UNIQUE (customer, second))"
)
consumer = KafkaConsumer(
    "orders",
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
    group_id="sums",
    enable_auto_commit=False,
    auto_offset_reset="earliest",
)
for message in consumer:
    payment = json.loads(message.value)
    if sys.argv[2:] == ["first"]:
        consumer.commit()
    with database:
        database.execute(
            (
                "INSERT INTO sums VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET cents = cents + "
                "excluded.cents"
            ),
            (payment["customer"], message.timestamp // 1000, payment["cents"]),
        )
    consumer.commit()
