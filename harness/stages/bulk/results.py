"""The sink of a bulk consumer: its own database. The runs of positions of each poll are written in
one transaction.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import numpy as np

from harness.model.closing import Closing
from harness.stages.bulk.records import Ints, runs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WAIT_S = 30.0
_TABLES = """
CREATE TABLE IF NOT EXISTS recorded (
  row INTEGER PRIMARY KEY, first INTEGER NOT NULL, count INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS absorbed (
  row INTEGER PRIMARY KEY, first INTEGER NOT NULL, count INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS strange (row INTEGER PRIMARY KEY, count INTEGER NOT NULL);
"""


class Results(Closing):
    """The database. After a SIGKILL it holds whole transactions only."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None, timeout=WAIT_S)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=OFF")
        self._database.executescript(_TABLES)
        self._end = int(
            self._database.execute(
                "SELECT coalesce(max(first + count), 0) FROM recorded"
            ).fetchone()[0]
        )

    def record(self, positions: Ints, strange: int = 0, *, once: bool = False) -> int:
        """Record positions in one transaction; return how many were absorbed.

        ``once``: positions that are recorded already are absorbed.
        """
        known = self._known(positions) if once else np.zeros(len(positions), dtype=np.bool_)
        new = positions[~known]
        self._database.execute("BEGIN")
        self._database.executemany("INSERT INTO recorded (first, count) VALUES (?, ?)", runs(new))
        self._database.executemany(
            "INSERT INTO absorbed (first, count) VALUES (?, ?)", runs(positions[known])
        )
        if strange:
            self._database.execute("INSERT INTO strange (count) VALUES (?)", (strange,))
        self._database.execute("COMMIT")
        self._end = max(self._end, int(new.max()) + 1) if len(new) else self._end
        return int(known.sum())

    def _known(self, positions: Ints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return which positions are recorded already, or come a second time in this array."""
        known = np.zeros(len(positions), dtype=np.bool_)
        if not len(positions):
            return known
        low, high = int(positions.min()), int(positions.max()) + 1
        if low < self._end:
            rows = self._database.execute(
                "SELECT first, count FROM recorded WHERE first < ? AND first + count > ?",
                (high, low),
            )
            for first, count in rows:
                known |= (positions >= first) & (positions < first + count)
        if len(positions) > 1 and not (positions[1:] > positions[:-1]).all():
            first_of = np.zeros(len(positions), dtype=np.bool_)
            first_of[np.unique(positions, return_index=True)[1]] = True
            known |= ~first_of
        return known

    def since(self, table: str, row: int) -> Iterator[tuple[int, int, int]]:
        """Yield the runs of the table ``recorded`` or ``absorbed`` after a row: row, first
        position, count.
        """
        yield from self._database.execute(
            f"SELECT row, first, count FROM {table} WHERE row > ? ORDER BY row",  # noqa: S608
            (row,),
        )

    def strange(self) -> int:
        """Return how many values were damaged, or were not records of this soak."""
        return int(
            self._database.execute("SELECT coalesce(sum(count), 0) FROM strange").fetchone()[0]
        )

    def close(self) -> None:
        """Close the database."""
        self._database.close()
