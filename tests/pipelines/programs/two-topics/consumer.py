"""Record every order and every payment in a database, and commit its position: after the work, but
before it in the topics that its further arguments name. Knows nothing of lostack.
"""

import json
import os
import sqlite3
import sys

from kafka import KafkaConsumer

database = sqlite3.connect(sys.argv[1])
database.execute("CREATE TABLE IF NOT EXISTS booked (number TEXT)")
consumer = KafkaConsumer(
    "orders",
    "payments",
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
    group_id="books",
    enable_auto_commit=False,
    auto_offset_reset="earliest",
)
for message in consumer:
    early = message.topic in sys.argv[2:]
    if early:
        consumer.commit()
    with database:
        database.execute("INSERT INTO booked VALUES (?)", (json.loads(message.value)["number"],))
    if not early:
        consumer.commit()
