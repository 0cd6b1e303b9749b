"""Record every order in a database, then commit its position. Knows nothing of lostack.

``consumer.py HOW DATABASE``: ``on`` reads on; ``reads-back`` reads some records again, and
``saves-back`` saves a lower position once.
"""

import json
import os
import sqlite3
import sys

from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata

how, path = sys.argv[1:]
database = sqlite3.connect(path)
database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT)")
consumer = KafkaConsumer(
    "orders",
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
    group_id="billing",
    enable_auto_commit=False,
    auto_offset_reset="earliest",
)
once = how
for message in consumer:
    with database:
        order = json.loads(message.value)["order"]
        database.execute("INSERT INTO orders VALUES (?)", (order,))
    consumer.commit()
    if message.offset < 4:
        continue
    at = TopicPartition(message.topic, message.partition)
    if once == "reads-back":
        consumer.seek(at, 2)
    elif once == "saves-back":
        consumer.commit({at: OffsetAndMetadata(2, "", -1)})
        consumer.commit()
    once = ""
