"""Record every order in a database, then commit. It polls for half a second at a time, and has a
request time-out of 12 s. Knows nothing of lostack.
"""

import json
import os
import sqlite3
import sys

from kafka import KafkaConsumer

database = sqlite3.connect(sys.argv[1])
database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT PRIMARY KEY, times INT)")
consumer = KafkaConsumer(
    "orders",
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
    group_id="billing",
    enable_auto_commit=False,
    auto_offset_reset="latest",
    request_timeout_ms=12000,
    session_timeout_ms=8000,
    heartbeat_interval_ms=2000,
    max_poll_records=5,
)
while True:
    for messages in consumer.poll(500).values():
        for message in messages:
            with database:
                database.execute(
                    "INSERT INTO orders VALUES (?, 1) ON CONFLICT DO UPDATE SET times = times + 1",
                    (json.loads(message.value)["order"],),
                )
    consumer.commit()
