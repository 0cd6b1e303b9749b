"""Record every order in a database, then acknowledge it. What an earlier program was given and has
not acknowledged is pending: the server gives it to nobody by itself, so it is claimed first. Knows
nothing of lostack.
"""

import os
import sqlite3

import redis

NAME = ("workers", "worker-1")

database = sqlite3.connect(os.environ["DATABASE"])
database.execute("CREATE TABLE IF NOT EXISTS orders (number TEXT)")
broker = redis.Redis.from_url(f"redis://{os.environ['BROKER']}/0", decode_responses=True)
try:
    broker.xgroup_create("orders", "workers", id="0", mkstream=True)
except redis.ResponseError as error:
    if not str(error).startswith("BUSYGROUP"):
        raise


def work(entries):
    """Record orders and acknowledge each."""
    for name, fields in entries:
        with database:
            database.execute("INSERT INTO orders VALUES (?)", (fields["order"],))
        broker.xack("orders", "workers", name)


while pending := broker.xautoclaim("orders", *NAME, min_idle_time=0, start_id="0-0")[1]:
    work(pending)
while True:  # a lost connection ends this program, and whoever supervises it starts it again
    found = broker.xreadgroup(*NAME, {"orders": ">"}, count=1, block=1000)
    for _, entries in found.items() if isinstance(found, dict) else found:
        work(entries)
