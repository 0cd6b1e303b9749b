"""The database sink: results, absorbed copies, processed ids and positions in one SQLite file.

A result is written in one transaction with what belongs to it. It names the copy of the record that
it was made from (partition, leader epoch and offset; or a queue broker's name for the copy). So the
judge can tell whether a duplicate was stored twice or delivered twice.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from harness.model.failures import EnvironmentFailure
from harness.stages.sinks.interface import Copy, place_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BUSY_MS = 10_000
"""How many milliseconds a writer waits for another one."""
_SCHEMA = """
CREATE TABLE results (
  n INTEGER PRIMARY KEY AUTOINCREMENT, value BLOB, key TEXT,
  partition INT, epoch INT, offset INT, name TEXT
);
CREATE TABLE absorbed (
  n INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT,
  partition INT, epoch INT, offset INT, name TEXT
);
CREATE TABLE processed (id TEXT PRIMARY KEY);
CREATE TABLE positions (partition INTEGER PRIMARY KEY, offset INT);
CREATE TABLE batches (query TEXT, batch INT, PRIMARY KEY (query, batch));
"""
_RESULTS = "SELECT n, value, key, partition, epoch, offset, name FROM results ORDER BY n"


class DatabaseSink:
    """The sink in the file ``path``. Everything between ``begin`` and ``commit`` is one
    transaction.

    Raises EnvironmentFailure if the file does not exist or cannot be opened. It never makes the
    file.
    """

    def __init__(self, path: Path) -> None:
        try:
            # a client may call its rebalance listener in another thread of its own, while the
            # program's waits
            self._db = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=rw",
                uri=True,
                isolation_level=None,
                timeout=BUSY_MS / 1000,
                check_same_thread=False,
            )
            self._db.execute("PRAGMA synchronous=OFF")
        except sqlite3.Error as error:
            raise EnvironmentFailure(f"cannot open the sink {path}: {error}") from error

    @staticmethod
    def create(path: Path) -> None:
        """Make the file with its tables.

        Raises:
            EnvironmentFailure: the tables cannot be made, or exist already.
        """
        try:
            with closing(sqlite3.connect(path)) as db, db:
                db.execute("PRAGMA journal_mode=WAL")
                db.executescript(_SCHEMA)
        except sqlite3.Error as error:
            raise EnvironmentFailure(f"cannot make the sink {path}: {error}") from error

    def begin(self) -> None:
        """Begin a transaction."""
        self._db.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Commit the transaction."""
        self._db.execute("COMMIT")

    def record(self, value: bytes, key: str | None, copy: Copy) -> None:
        """Write one result."""
        self._db.execute(
            (
                "INSERT INTO results (value, key, partition, epoch, offset, name) VALUES (?, ?, ?, "
                "?, ?, ?)"
            ),
            (value, key, *place_of(copy)),
        )

    def forget_key(self, key: str) -> None:
        """Remove every result of a key."""
        self._db.execute("DELETE FROM results WHERE key = ?", (key,))

    def absorb(self, record: str, copy: Copy) -> bool:
        """Remember a processed id; return true if it was processed before (the copy is then counted
        as absorbed).
        """
        known = (
            self._db.execute("INSERT OR IGNORE INTO processed VALUES (?)", (record,)).rowcount == 0
        )
        if known:
            self.absorb_copy(record, copy)
        return known

    def absorb_batch(self, query: str, batch: int) -> bool:
        """Remember a batch of a query; return true if it was recorded before."""
        return (
            self._db.execute("INSERT OR IGNORE INTO batches VALUES (?, ?)", (query, batch)).rowcount
            == 0
        )

    def absorb_copy(self, record: str, copy: Copy) -> None:
        """Count a copy as absorbed."""
        self._db.execute(
            "INSERT INTO absorbed (id, partition, epoch, offset, name) VALUES (?, ?, ?, ?, ?)",
            (record, *place_of(copy)),
        )

    def save_position(self, partition: int, offset: int) -> None:
        """Save the next offset to be read of a partition."""
        self._db.execute("INSERT OR REPLACE INTO positions VALUES (?, ?)", (partition, offset))

    def positions(self) -> dict[int, int]:
        """Return the next offset to be read, per partition."""
        return {
            int(p): int(o) for p, o in self._db.execute("SELECT partition, offset FROM positions")
        }

    def results(self) -> Iterator[tuple[int, bytes, str | None, Copy]]:
        """Yield ``(order, value, key, copy)`` of every result in the order of recording."""
        for n, value, key, *copy in self._db.execute(_RESULTS):
            yield int(n), bytes(value), key, Copy(*copy)

    def absorbed(self) -> Iterator[tuple[str, Copy]]:
        """Yield ``(id, copy)`` of every absorbed copy."""
        for record, *copy in self._db.execute(
            "SELECT id, partition, epoch, offset, name FROM absorbed ORDER BY n"
        ):
            yield str(record), Copy(*copy)

    def size(self) -> tuple[int, int]:
        """Return the numbers of results and of absorbed copies. They change as long as the sink is
        not quiet.
        """
        row = self._db.execute(
            "SELECT (SELECT count(*) FROM results), (SELECT count(*) FROM absorbed)"
        ).fetchone()
        return int(row[0]), int(row[1])

    def unsettled(self) -> int:
        """Return 1 while another connection has a write transaction (a file has one writer), else
        0. Dead writers leave none.
        """
        if self._db.in_transaction:
            return 0
        try:
            self._db.execute("PRAGMA busy_timeout=0")
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("ROLLBACK")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
            return 1
        finally:
            self._db.execute(f"PRAGMA busy_timeout={BUSY_MS}")
        return 0

    def reconnect(self) -> None:
        """Roll back the open transaction; a file needs no new connection."""
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def close(self) -> None:
        """Close the file and roll back the open transaction."""
        self._db.close()
