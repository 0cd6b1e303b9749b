"""Two programs, joined by a topic: one hands every order on at once, the other records four in 3 s.
Knows nothing of lostack.
"""

import json
import os
import sqlite3
import sys
import threading
import time

from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata


def reader(topic, group):
    """Return a reader of a topic."""
    return KafkaConsumer(
        topic,
        bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_poll_records=4,
    )


def hand_on():
    """Hand every order on to the second topic."""
    consumer, producer = (
        reader("orders", "hands-on"),
        KafkaProducer(bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"], acks="all"),
    )
    for message in consumer:
        producer.send("checked", message.value).get(timeout=60)
        consumer.commit()


def record():
    """Record what is in the second topic; begin to hand on when the position there is saved."""
    database = sqlite3.connect(sys.argv[1])
    database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT, customer TEXT)")
    consumer = reader("checked", "billing")
    while not consumer.assignment():
        consumer.poll(timeout_ms=100)
    consumer.commit({part: OffsetAndMetadata(0, "", -1) for part in consumer.assignment()})
    threading.Thread(target=hand_on, daemon=True).start()
    while True:
        for messages in consumer.poll(timeout_ms=1000).values():
            time.sleep(3)
            with database:
                for order in (json.loads(message.value) for message in messages):
                    database.execute(
                        "INSERT INTO orders VALUES (?, ?)", (order["order"], order["customer"])
                    )
        consumer.commit()


record()
