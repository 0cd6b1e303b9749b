"""A shop that takes in, changes, renumbers and deletes orders: shop.py DATABASE EVENTS [insert].

Each wave treats four orders in one transaction. They come in by one COPY, whose rows PostgreSQL
writes into its log as one entry, and so with one position; or each by an INSERT of its own. A row
has the number of its last event, and the one that its end will have, so that each change event
tells its own: a new key is the end of one row and the beginning of another.

Who has saved no position begins its snapshot again, which shows the rows as they are then. So there
are only new rows until a position is saved: the first wave before anybody follows the log, the
second one then. A saved position is confirmed to the log, and two waves come beyond the last one
that is: however slow the follower is, there is something left to do. Nobody confirms what only a
snapshot has shown: who has followed the log for ten seconds gets the next wave anyway. And two
waves come while nobody follows it any more.
"""

import sys
import time

import psycopg

TABLES = """
CREATE TABLE IF NOT EXISTS orders (id int PRIMARY KEY, event int NOT NULL, ends int NOT NULL);
ALTER TABLE orders REPLICA IDENTITY FULL;
CREATE TABLE IF NOT EXISTS done (wave int PRIMARY KEY, lsn pg_lsn);
"""
ORDERS = 4
INSERT = "INSERT INTO orders VALUES (%(id)s, %(first)s, %(first)s + 8 + %(nth)s)"
CHANGES = (
    "UPDATE orders SET event = event + 4 WHERE id = %(id)s",
    "UPDATE orders SET id = -id, event = ends + 1, ends = %(first)s + 16 WHERE id = %(id)s",
    "DELETE FROM orders WHERE id = -%(id)s",
)
FOLLOWED = """
SELECT active, (SELECT max(wave) FROM done WHERE lsn < confirmed_flush_lsn)
FROM pg_replication_slots
"""
WAVES = 1 + len(CHANGES)
EVENTS = 5 * ORDERS
EACH_S = 0.1
AHEAD = 2
SAVED_S = 10.0


def followed(database: psycopg.Connection) -> tuple[bool, int]:
    """Say whether somebody follows the log, and the last wave behind whose beginning a position is
    confirmed; 0 if that is the first one, or none.
    """
    found = database.execute(FOLLOWED).fetchone()
    return (bool(found[0]), found[1] or 0) if found else (False, 0)


def take_in(database: psycopg.Connection, orders: list[dict[str, int]]) -> None:
    """Make orders."""
    if sys.argv[3:] == ["insert"]:
        database.cursor().executemany(INSERT, orders)
        return
    with database.cursor() as cursor, cursor.copy("COPY orders FROM STDIN") as copy:
        for order in orders:
            copy.write_row((order["id"], order["first"], order["first"] + 8 + order["nth"]))


def do(database: psycopg.Connection, wave: int, group: int, act: int) -> None:
    """Make, change, renumber or delete four orders, once."""
    orders = [
        {"id": group * ORDERS + nth + 1, "first": group * EVENTS + nth + 1, "nth": nth}
        for nth in range(ORDERS)
    ]
    with database.transaction():
        noted = "INSERT INTO done VALUES (%s, pg_current_wal_lsn()) ON CONFLICT DO NOTHING"
        if database.execute(noted, (wave,)).rowcount:
            if act == 0:
                take_in(database, orders)
            else:
                database.cursor().executemany(CHANGES[act - 1], orders)
    print(f"wave {wave} is done", flush=True)


acts = [(group, act) for group in range(int(sys.argv[2]) // EVENTS) for act in range(WAVES)]
acts.sort(key=lambda each: (each[0] + (each[1] > 0), each[1]))  # the next orders come first
wave, last, since, follows = 0, 0, time.monotonic(), False
while True:
    try:
        with psycopg.connect(sys.argv[1], autocommit=True) as database:
            database.execute(TABLES)
            while wave < len(acts):
                active, saved = followed(database)
                if active:
                    waited = time.monotonic() - since >= SAVED_S
                    last = max(saved + AHEAD if saved else 1, wave if waited else 0)
                elif follows and last > 1:
                    last = wave + AHEAD - 1
                due = wave <= last
                if due:
                    do(database, wave, *acts[wave])
                    wave += 1
                if due or not active:
                    since = time.monotonic()
                follows = active
                time.sleep(EACH_S)
            time.sleep(3600)
    except psycopg.OperationalError as error:
        print(str(error).strip(), flush=True)
        time.sleep(EACH_S)
