"""Book each order, then save its position. ``waits``: the client finds the new leader. ``anew``:
when a leader changes, go on with what comes from now on.
"""

import json
import os
import sqlite3
import sys

from kafka import KafkaConsumer

how, file = sys.argv[1:]
database = sqlite3.connect(file)
database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT)")
consumer = KafkaConsumer(
    "orders",
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
    group_id="billing",
    enable_auto_commit=False,
    auto_offset_reset="earliest",
    isolation_level="read_committed",
    max_poll_records=1,
)
led = {}
while True:
    for messages in consumer.poll(timeout_ms=100).values():
        for message in messages:
            with database:
                number = json.loads(message.value)["order"]
                database.execute("INSERT INTO orders VALUES (?)", (number,))
            consumer.commit()
    for partition in consumer.assignment() if how == "anew" else ():
        leader = consumer._client.cluster.leader_for_partition(partition)
        if led.setdefault(partition, leader) != leader:
            led[partition] = leader
            consumer.seek_to_end(partition)
            consumer.position(partition)
            consumer.commit()
