"""Record every letter in a database, then acknowledge it. Knows nothing of lostack."""

import json
import os
import sqlite3
import sys

import pulsar

database = sqlite3.connect(sys.argv[1])
database.execute("CREATE TABLE IF NOT EXISTS letters (number TEXT)")
client = pulsar.Client(f"pulsar://{os.environ['BROKER']}")
consumer = client.subscribe(
    "persistent://public/default/letters",
    "archive",
    consumer_type=pulsar.ConsumerType.Shared,
    initial_position=pulsar.InitialPosition.Earliest,
)
while True:
    message = consumer.receive()
    with database:
        database.execute("INSERT INTO letters VALUES (?)", (json.loads(message.data())["letter"],))
    consumer.acknowledge(message)
