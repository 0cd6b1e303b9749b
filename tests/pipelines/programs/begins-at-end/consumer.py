"""Record every order in a database, then commit its position. Where a new group begins is its
second argument. Knows nothing of lostack.
"""

import json
import os
import sqlite3
import sys

from kafka import KafkaConsumer

database = sqlite3.connect(sys.argv[1])
database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT)")
consumer = KafkaConsumer(
    "orders",
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
    group_id="billing",
    enable_auto_commit=False,
    auto_offset_reset=sys.argv[2],
)
for message in consumer:
    with database:
        database.execute("INSERT INTO orders VALUES (?)", (json.loads(message.value)["order"],))
    consumer.commit()
