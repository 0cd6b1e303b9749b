"""Offer the records as rows of a table of PostgreSQL, in transactions that overlap: of those that
are open together, the one that began first is committed last.

So a row may become visible behind rows with higher numbers. A reader that remembers the highest
number that it has seen never sees such a row.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import sql

from harness.model import events as kinds
from harness.systems.declared.feed.feeders import STARTS_S, PacedFeeder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from psycopg.rows import TupleRow

    from harness.model.history import HistoryWriter
    from harness.systems.declared.feed.waves import Waves

    Connection = psycopg.Connection[TupleRow]

CONNECTS_S: Final = 5
"""How long connecting may take."""
LOCK_MS: Final = 1000
"""How long a row may wait for a lock that an open transaction may have: writers that are made to
wait for each other do not overlap.
"""
AWAY_S: Final = 60.0
"""How long the database may be away."""
LOOK_S: Final = 0.02
LEAST_S: Final = 0.3
MOST_S: Final = 10.0
"""How long the last commit of several waits for the others' rows to be sent: three times as long as
the producer took to send a lone row, and within these bounds.
"""
IN_VAIN_S: Final = 30.0
"""How long commits wait in vain, all together: a reader that waits for open transactions never
sends the others' rows.
"""
NAME: Final = "lostack-rows"
"""How its connections call themselves."""
INSERT: Final = (
    "INSERT INTO {table} ({columns}) SELECT {columns} FROM json_populate_record(NULL::{table}, %s)"
)
THERE: Final = """
SELECT EXISTS (SELECT FROM {table} t WHERE to_jsonb(t) @> (
    SELECT to_jsonb(s) FROM (SELECT {columns} FROM json_populate_record(NULL::{table}, %s)) s))
"""
"""Whether there is a row. Not the number of its transaction is asked for: a server that has died
gives numbers again that it had not made durable.
"""
LIVES: Final = """
SELECT EXISTS (SELECT FROM pg_stat_activity
    WHERE pid = %s AND application_name = %s AND pid <> pg_backend_pid())
"""


@dataclass(frozen=True, slots=True)
class _Open:
    """An open transaction with a row. ``pid``: of its server process."""

    record: str
    database: Connection
    pid: int


class TableFeeder(PacedFeeder):
    """Inserts each record once, with up to ``writers`` transactions open at once.

    Where the database dies before it has answered a commit, it is asked afterwards what became of
    that transaction.
    """

    def __init__(
        self,
        database: str,
        table: str,
        columns: Sequence[str],
        lines: Mapping[str, str],
        *,
        rate: float,
        history: HistoryWriter,
        waves: Waves,
        writers: int,
        sent: Callable[[], set[str]],
    ) -> None:
        """``sent``: returns the records that the producer has sent so far."""
        super().__init__(rate=rate / writers, history=history, waves=waves)
        self._database = database
        names = {
            "table": sql.Identifier(*table.split(".")),
            "columns": sql.SQL(", ").join(map(sql.Identifier, columns)),
        }
        self._insert, self._there = (sql.SQL(text).format(**names) for text in (INSERT, THERE))
        self._lines = lines
        self._writers = writers
        self._sent = sent
        self._takes_s: float | None = None
        """How long the producer took to send a lone row; ``None``: not known yet."""
        self._in_vain_s = 0.0

    def _run(self) -> None:
        todo = list(enumerate(self._lines, start=1))
        try:
            while todo and not self._stop.is_set():
                if not self._may_offer(todo[0][0]):
                    continue
                together = [todo.pop(0)[1]]
                while (
                    todo
                    and self._takes_s is not None  # the first row is alone
                    and len(together) < self._writers
                    and self._waves.lets(todo[0][0])
                ):
                    together.append(todo.pop(0)[1])
                self._insert_all(together)
            if not todo:
                self._done.set()
        except psycopg.Error as error:
            said = str(error).strip().splitlines() or [type(error).__name__]
            self._trouble = f"a row could not be inserted: {said[0]}"

    def _insert_all(self, together: Sequence[str]) -> None:
        """Insert rows: together, and those that could not be, one by one."""
        rest = self._overlapping(together)
        while rest and not self._stop.is_set():
            rest = [*self._overlapping(rest[:1]), *rest[1:]]

    def _overlapping(self, together: Sequence[str]) -> list[str]:
        """Insert rows in transactions that are open together; return the records whose rows are not
        there.
        """
        opened: list[_Open] = []
        left = list(together)
        try:
            for record in together:
                database = self._connect()
                one = _Open(record, database, database.info.backend_pid)
                opened.append(one)
                if not self._begin(one, alone=len(together) == 1):
                    opened.pop().database.close()
                    break
            passed: list[str] = []
            for one in reversed(opened):
                if one is opened[0]:
                    self._await_sent(passed)
                one.database.commit()
                self._tell(one, passed)
                left.remove(one.record)
                passed.append(one.record)
            if len(together) == 1 and self._takes_s is None:
                self._learn(together[0])
        except psycopg.OperationalError:
            done = self._looked_up([one for one in opened if one.record in left])
            for one in done:
                self._tell(one, ())
                left.remove(one.record)
        finally:
            for one in opened:
                with suppress(psycopg.Error):
                    one.database.close()
        return left

    def _connect(self) -> Connection:
        """Connect; a database that is away is waited for.

        Raises:
            psycopg.Error: it does not come back.
        """
        until = time.monotonic() + AWAY_S
        while True:
            try:
                return psycopg.connect(
                    self._database, connect_timeout=CONNECTS_S, application_name=NAME
                )
            except psycopg.OperationalError:
                if time.monotonic() > until or self._stop.wait(self._pause_s):
                    raise

    def _begin(self, one: _Open, *, alone: bool) -> bool:
        """Insert a row, and say whether that was done: not if it had to wait for a transaction that
        is open, too.
        """
        if not alone:
            one.database.execute(f"SET LOCAL lock_timeout = {LOCK_MS}")
        try:
            one.database.execute(self._insert, (self._lines[one.record],))
        except psycopg.errors.LockNotAvailable:
            return False
        return True

    def _await_sent(self, passed: Sequence[str]) -> None:
        """Give the producer time to send the rows that were committed first."""
        if not passed or self._takes_s is None or self._in_vain_s > IN_VAIN_S:
            return
        begun = time.monotonic()
        while time.monotonic() - begun < min(max(LEAST_S, 3 * self._takes_s), MOST_S):
            if not self._sent().isdisjoint(passed):
                return
            if self._stop.wait(LOOK_S):
                return
        self._in_vain_s += time.monotonic() - begun

    def _learn(self, record: str) -> None:
        """Learn how long the producer takes to send a row."""
        begun = time.monotonic()
        while time.monotonic() - begun < STARTS_S and record not in self._sent():
            if self._stop.wait(LOOK_S):
                return
        self._takes_s = time.monotonic() - begun

    def _tell(self, one: _Open, passed: Sequence[str]) -> None:
        self._history.write(kinds.Taken(record=one.record, passed=tuple(passed)))
        self.offered += 1

    def _looked_up(self, doubtful: Sequence[_Open]) -> list[_Open]:
        """Return the committed transactions whose commit was not answered."""
        for one in doubtful:
            with suppress(psycopg.Error):
                one.database.close()
        found: list[_Open] = []
        with self._connect() as database:
            database.autocommit = True
            for one in doubtful:
                self._await_end(database, one.pid)
                there = database.execute(self._there, (self._lines[one.record],)).fetchone()
                if there == (True,) or one.record in self._sent():  # a reader may delete rows
                    found.append(one)
        return found

    def _await_end(self, database: Connection, pid: int) -> None:
        """Wait until the server process of a lost connection has ended."""
        until = time.monotonic() + AWAY_S
        while database.execute(LIVES, (pid, NAME)).fetchone() == (True,):
            if time.monotonic() > until or self._stop.wait(LOOK_S):
                return
