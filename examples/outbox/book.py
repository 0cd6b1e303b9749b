"""Book each order once, then commit its position. Knows nothing of lostack."""

import json
import os
import time

import psycopg
from kafka import KafkaConsumer

BOOK = "INSERT INTO bookings (number, customer) VALUES (%s, %s) ON CONFLICT DO NOTHING"

consumer = KafkaConsumer(
    "orders",
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
    group_id="books",
    enable_auto_commit=False,
    auto_offset_reset="earliest",
)


def booked(order):
    """Return whether the order is in the table now."""
    try:
        with psycopg.connect(os.environ["DATABASE"]) as database:
            database.execute(BOOK, (order["number"], order["customer"]))
    except psycopg.OperationalError as error:
        print("the database:", error, flush=True)
        return False
    return True


for message in consumer:
    while not booked(json.loads(message.value)):  # the database is away; the order is not lost
        time.sleep(0.2)
    consumer.commit()
