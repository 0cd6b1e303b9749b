"""Record every order in a database, then commit its position; never two of this at once. Knows
nothing of lostack.
"""

import json
import os
import sqlite3
import sys
from pathlib import Path

lock = Path(f"{sys.argv[1]}.lock")
try:
    lock.touch(exist_ok=False)
except FileExistsError:
    sys.exit(f"{lock.name} is there: another consumer is at work")

from kafka import KafkaConsumer  # noqa: E402

database = sqlite3.connect(sys.argv[1])
database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT, customer TEXT)")
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
        database.execute("INSERT INTO orders VALUES (?, ?)", (order["order"], order["customer"]))
    consumer.commit()
