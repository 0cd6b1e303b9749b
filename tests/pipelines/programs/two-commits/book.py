"""Book each order into PostgreSQL, then commit the position. ``book.py together`` notes the order
and books it in one transaction, ``book.py apart`` in two.
"""

import json
import os
import sys
import time

import psycopg
from kafka import KafkaConsumer

APART = sys.argv[1] == "apart"
WITHIN_S = 60.0


def connected() -> psycopg.Connection:
    """Wait for the database, for a limited time, and return a connection to it."""
    until = time.monotonic() + WITHIN_S
    while True:
        try:
            return psycopg.connect(os.environ["DATABASE"])
        except psycopg.OperationalError as error:
            if time.monotonic() > until:
                raise
            print("waiting for the database:", error, flush=True)
            time.sleep(0.1)  # between two questions


def book(database: psycopg.Connection, number: str) -> None:
    """Book an order that was not noted yet."""
    note = "INSERT INTO noted VALUES (%s) ON CONFLICT DO NOTHING"
    new = database.execute(note, (number,)).rowcount == 1
    if APART:
        database.commit()
    if new:
        database.execute("INSERT INTO booked VALUES (%s)", (number,))
    database.commit()


database = connected()
database.execute("CREATE TABLE IF NOT EXISTS noted (number text PRIMARY KEY)")
database.execute("CREATE TABLE IF NOT EXISTS booked (number text)")
database.commit()
consumer = KafkaConsumer(
    "orders",
    bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
    group_id="books",
    enable_auto_commit=False,
    auto_offset_reset="earliest",
)
for message in consumer:
    while True:
        try:
            book(database, json.loads(message.value)["number"])
            break
        except psycopg.OperationalError as error:  # nobody knows whether it is booked: again
            print("the database:", error, flush=True)
            database = connected()
    consumer.commit()
