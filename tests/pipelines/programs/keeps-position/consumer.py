"""Record every order and its position in one transaction; read on from there. Knows nothing of
lostack.

Called with ``topic-id`` it keeps the topic's id beside the positions, and begins anew where it
differs.
"""

import json
import os
import sqlite3
import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

TOPIC = "orders"
servers = {"bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"]}
database = sqlite3.connect(sys.argv[1])
database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT)")
database.execute("CREATE TABLE IF NOT EXISTS positions (number INTEGER PRIMARY KEY, next INTEGER)")
database.execute("CREATE TABLE IF NOT EXISTS topic (id TEXT)")
admin = AdminClient(servers)
description = admin.describe_topics(TopicCollection([TOPIC]))[TOPIC].result()
if "topic-id" in sys.argv:
    known = database.execute("SELECT id FROM topic").fetchone()
    if known != (str(description.topic_id),):
        with database:
            database.execute("DELETE FROM positions")
            database.execute("DELETE FROM topic")
            database.execute("INSERT INTO topic VALUES (?)", (str(description.topic_id),))
positions = dict(database.execute("SELECT number, next FROM positions"))
consumer = Consumer(servers | {"group.id": "none", "auto.offset.reset": "latest"})
consumer.assign(
    [
        TopicPartition(TOPIC, each.id, positions.get(each.id, OFFSET_BEGINNING))
        for each in description.partitions
    ]
)
while True:
    message = consumer.poll(1.0)
    if message is None:
        continue
    if message.error():
        print(message.error(), file=sys.stderr, flush=True)
        continue
    with database:
        database.execute("INSERT INTO orders VALUES (?)", (json.loads(message.value())["order"],))
        database.execute(
            "INSERT OR REPLACE INTO positions VALUES (?, ?)",
            (message.partition(), message.offset() + 1),
        )
