"""The outbox: a durable, numbered list of records with a cursor, in SQLite.

Positions count from 1; the cursor is the next position to send. Every write is one transaction that
survives SIGKILL of the writer (WAL, no power-loss guarantee: the outbox is never under test).
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from harness.model.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


class Outbox:
    """An outbox in the file ``path``."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None, timeout=10)
        self._db.execute("PRAGMA synchronous=OFF")

    @staticmethod
    def create(path: Path, records: Iterable[Record]) -> None:
        """Make the file with the records."""
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute(
                "CREATE TABLE records (position INTEGER PRIMARY KEY, id TEXT UNIQUE, key TEXT, "
                "filler TEXT)"
            )
            db.execute(
                "CREATE TABLE cursor (one INTEGER PRIMARY KEY CHECK (one = 1), position INTEGER)"
            )
            db.execute("INSERT INTO cursor VALUES (1, 1)")
            db.executemany(
                "INSERT INTO records VALUES (?, ?, ?, ?)",
                [(r.position, r.id, r.key, r.filler) for r in records],
            )

    def read(self, position: int) -> Iterator[Record]:
        """Yield the records from ``position`` on, in order."""
        rows = self._db.execute(
            "SELECT id, key, position, filler FROM records WHERE position >= ? ORDER BY position",
            (position,),
        ).fetchall()
        for row in rows:
            yield Record(*row)

    def last(self) -> int:
        """Return the position of the last record; 0 if there is none."""
        found = self._db.execute("SELECT MAX(position) FROM records").fetchone()[0]
        return int(found or 0)

    def cursor(self) -> int:
        """Return the next position to send."""
        return int(self._db.execute("SELECT position FROM cursor").fetchone()[0])

    def save_cursor(self, position: int) -> None:
        """Save the next position to send."""
        self._db.execute("UPDATE cursor SET position = ?", (position,))

    def close(self) -> None:
        """Close the file."""
        self._db.close()
