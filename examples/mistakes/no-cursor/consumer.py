"""Not the mistake: every number is recorded once, however often it is delivered under that number
and place.
"""

import json
import os
import sqlite3
import sys

from kafka import KafkaConsumer

database = sqlite3.connect(sys.argv[1])
database.execute("CREATE TABLE IF NOT EXISTS orders (place TEXT PRIMARY KEY, number TEXT)")
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
        place = f"{message.partition}/{message.offset}"
        database.execute("INSERT OR IGNORE INTO orders VALUES (?, ?)", (place, order["order"]))
    consumer.commit()
