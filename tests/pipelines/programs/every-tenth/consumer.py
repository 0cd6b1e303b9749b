"""Record every order, and commit behind every tenth, as many programs do. Knows
nothing of lostack.
"""

import json
import os
import sqlite3
import sys

from kafka import KafkaConsumer

database = sqlite3.connect(sys.argv[1])
database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT, customer TEXT)")
consumer = KafkaConsumer(
    "orders",
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
    group_id="billing",
    enable_auto_commit=False,
    auto_offset_reset="earliest",
)
for count, message in enumerate(consumer, start=1):
    order = json.loads(message.value)
    with database:
        database.execute("INSERT INTO orders VALUES (?, ?)", (order["order"], order["customer"]))
    if count % 10 == 0:
        consumer.commit()
