"""Send each line of a file, and remember how many are sent. Knows nothing of lostack.

``producer.py HOW INPUT CURSOR``: ``behind`` saves the cursor behind the acknowledgement, ``before``
as soon as the record is handed to the client, ``first`` before that; ``never`` saves none.
``clock`` saves every 5 s what was handed to the client, ``clock-behind`` what was acknowledged.
``CURSOR`` is a file, or a PostgreSQL database.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path

import psycopg
from kafka import KafkaProducer

how, lines, cursor = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
producer = KafkaProducer(bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"], acks="all")
database = None


def connected():
    """Wait for the database, and return a connection to it with a cursor."""
    for _ in range(600):
        try:
            found = psycopg.connect(sys.argv[3])
        except psycopg.OperationalError:
            time.sleep(0.1)
            continue
        found.execute("CREATE TABLE IF NOT EXISTS cursor (sent integer)")
        found.commit()
        return found
    sys.exit("there is no database")


def load():
    """Return the cursor."""
    if database is not None:
        return database.execute("SELECT coalesce(max(sent), 0) FROM cursor").fetchone()[0]
    return int(cursor.read_text()) if cursor.exists() else 0


def save(count):
    """Save the cursor, durably."""
    if database is not None:
        database.execute("INSERT INTO cursor VALUES (%s)", (count,))
        database.commit()
        return
    new = cursor.with_suffix(".new")
    with new.open("w") as file:
        file.write(str(count))
        file.flush()
        os.fsync(file.fileno())
    new.replace(cursor)


def saves(sent):
    """Save every 5 s how many records are sent."""
    saved = load()
    while True:
        time.sleep(5)
        if how == "clock-behind":
            for future in sent[: (count := len(sent))]:
                future.get(timeout=60)
        else:
            count = len(sent)
        save(saved + count)


if "://" in sys.argv[3]:
    database = connected()
done = load()
futures = []
if how.startswith("clock"):
    threading.Thread(target=saves, args=(futures,), daemon=True).start()
for number, line in enumerate(lines.read_text().splitlines(), start=1):
    if number <= done:
        continue
    if how == "first":
        save(number)
    sent = producer.send("orders", line.encode(), key=json.loads(line)["customer"].encode())
    if how == "before":
        save(number)
    if how.startswith("clock"):
        futures.append(sent)
        time.sleep(0.05)
        continue
    sent.get(timeout=60)
    if how == "behind":
        save(number)
producer.close()
