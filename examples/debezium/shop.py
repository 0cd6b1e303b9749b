"""A shop that takes in, changes, renumbers and deletes orders: shop.py DATABASE EVENTS.

Each wave treats four orders in one transaction. They come in by one COPY, whose rows PostgreSQL
writes into its log as one entry, and so with one position. A row has the number of its last event,
and the one that its end will have, so that each change event tells its own: a new key is the end of
one row and the beginning of another. Only the first wave is there before somebody reads the
changes, and only two come while nobody reads them any more.
"""

import sys
import time

import psycopg

TABLES = """
CREATE TABLE IF NOT EXISTS orders (id int PRIMARY KEY, event int NOT NULL, ends int NOT NULL);
ALTER TABLE orders REPLICA IDENTITY FULL;
CREATE TABLE IF NOT EXISTS done (wave int PRIMARY KEY);
"""
ORDERS = 4
CHANGES = (
    "UPDATE orders SET event = event + 4 WHERE id = %(id)s",
    "UPDATE orders SET id = -id, event = ends + 1, ends = %(first)s + 16 WHERE id = %(id)s",
    "DELETE FROM orders WHERE id = -%(id)s",
)
WAVES = 1 + len(CHANGES)
EVENTS = 5 * ORDERS
EACH_S = 0.3
AHEAD = 2


def is_read(database: psycopg.Connection) -> bool:
    """Say whether somebody follows the log: who is still at the snapshot would begin it again."""
    slots = "SELECT FROM pg_replication_slots WHERE active"
    return database.execute(slots).fetchone() is not None


def take_in(database: psycopg.Connection, orders: list[dict[str, int]]) -> None:
    """Make orders."""
    with database.cursor() as cursor, cursor.copy("COPY orders FROM STDIN") as copy:
        for order in orders:
            copy.write_row((order["id"], order["first"], order["first"] + 8 + order["nth"]))


def do(database: psycopg.Connection, wave: int) -> None:
    """Make, change, renumber or delete four orders, once."""
    group, act = divmod(wave, WAVES)
    orders = [
        {"id": group * ORDERS + nth + 1, "first": group * EVENTS + nth + 1, "nth": nth}
        for nth in range(ORDERS)
    ]
    with database.transaction():
        noted = "INSERT INTO done VALUES (%s) ON CONFLICT DO NOTHING"
        if database.execute(noted, (wave,)).rowcount:
            if act == 0:
                take_in(database, orders)
            else:
                database.cursor().executemany(CHANGES[act - 1], orders)
    print(f"wave {wave} is done", flush=True)


wave, read = 0, -AHEAD
while True:
    try:
        with psycopg.connect(sys.argv[1], autocommit=True) as database:
            database.execute(TABLES)
            while wave < int(sys.argv[2]) // EVENTS * WAVES:
                read = wave if is_read(database) else read
                if wave == 0 or wave <= read + AHEAD:
                    do(database, wave)
                    wave += 1
                time.sleep(EACH_S)
            time.sleep(3600)
    except psycopg.OperationalError as error:
        print(str(error).strip(), flush=True)
        time.sleep(EACH_S)
