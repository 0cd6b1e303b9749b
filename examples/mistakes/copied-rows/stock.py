"""A shop that takes in its stock by COPY, twelve rows in each: stock.py DATABASE ROWS [insert].

PostgreSQL writes the rows that one COPY has put into one page of the table into its log as one
entry, so they have one position there. With `insert` each row comes by itself, in a transaction of
twelve, and has its own. Only the first COPY is there before somebody reads the
changes, and only two come while nobody reads them any more.
"""

import sys
import time

import psycopg

TABLES = """
CREATE TABLE IF NOT EXISTS stock (id int PRIMARY KEY);
CREATE TABLE IF NOT EXISTS done (wave int PRIMARY KEY);
"""
ROWS = 12
EACH_S = 0.3
AHEAD = 2


def is_read(database: psycopg.Connection) -> bool:
    """Say whether somebody follows the log: who is still at the snapshot would begin it again."""
    slots = "SELECT FROM pg_replication_slots WHERE active"
    return database.execute(slots).fetchone() is not None


def take_in(database: psycopg.Connection, wave: int) -> None:
    """Take in twelve rows, once."""
    rows = [(wave * ROWS + nth + 1,) for nth in range(ROWS)]
    with database.transaction():
        noted = "INSERT INTO done VALUES (%s) ON CONFLICT DO NOTHING"
        if database.execute(noted, (wave,)).rowcount:
            with database.cursor() as cursor:
                if sys.argv[3:] == ["insert"]:
                    cursor.executemany("INSERT INTO stock VALUES (%s)", rows)
                else:
                    with cursor.copy("COPY stock FROM STDIN") as copy:
                        for row in rows:
                            copy.write_row(row)
    print(f"wave {wave} is done", flush=True)


wave, read = 0, -AHEAD
while True:
    try:
        with psycopg.connect(sys.argv[1], autocommit=True) as database:
            database.execute(TABLES)
            while wave < int(sys.argv[2]) // ROWS:
                read = wave if is_read(database) else read
                if wave == 0 or wave <= read + AHEAD:
                    take_in(database, wave)
                    wave += 1
                time.sleep(EACH_S)
            time.sleep(3600)
    except psycopg.OperationalError as error:
        print(str(error).strip(), flush=True)
        time.sleep(EACH_S)
