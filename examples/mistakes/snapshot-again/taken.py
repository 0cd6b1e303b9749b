"""A shop that takes in orders: taken.py DATABASE ORDERS SECONDS.

There is one each 20 ms, in a transaction of its own. The first comes when somebody has followed the
log for SECONDS, the others whether anybody follows it or not.
"""

import sys
import time

import psycopg

TABLES = "CREATE TABLE IF NOT EXISTS orders (number int PRIMARY KEY)"
EACH_S = 0.02


def is_followed(database: psycopg.Connection) -> bool:
    """Say whether somebody follows the log."""
    slots = "SELECT FROM pg_replication_slots WHERE active"
    return database.execute(slots).fetchone() is not None


since: float | None = None
while True:
    try:
        with psycopg.connect(sys.argv[1], autocommit=True) as database:
            database.execute(TABLES)
            print("the table is there", flush=True)
            [(number,)] = database.execute("SELECT count(*) FROM orders").fetchall()
            while number < int(sys.argv[2]):
                if since is None and is_followed(database):
                    since = time.monotonic()
                if since is not None and time.monotonic() >= since + float(sys.argv[3]):
                    number += 1
                    database.execute("INSERT INTO orders VALUES (%s)", (number,))
                time.sleep(EACH_S)
            time.sleep(3600)
    except psycopg.OperationalError as error:
        print(str(error).strip(), flush=True)
        time.sleep(1)
