"""A row and the position behind it are written in one transaction: both are there, or
neither is.
"""

import json
import os
import sqlite3
import sys

from kafka import KafkaConsumer, TopicPartition

database = sqlite3.connect(sys.argv[1])
database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT, customer TEXT)")
database.execute(
    "CREATE TABLE IF NOT EXISTS positions (partition INTEGER PRIMARY KEY, next INTEGER)"
)
consumer = KafkaConsumer(
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"], enable_auto_commit=False
)
partitions = [
    TopicPartition("orders", number) for number in consumer.partitions_for_topic("orders")
]
positions = dict(database.execute("SELECT partition, next FROM positions"))
consumer.assign(partitions)
for each in partitions:
    consumer.seek(each, positions.get(each.partition, 0))
for message in consumer:
    order = json.loads(message.value)
    with database:
        database.execute("INSERT INTO orders VALUES (?, ?)", (order["order"], order["customer"]))
        database.execute(
            "REPLACE INTO positions VALUES (?, ?)", (message.partition, message.offset + 1)
        )
