"""The database sink in PostgreSQL: the same tables, the same transactions, and connections that can
be lost.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg

from harness.model.failures import EnvironmentFailure
from harness.model.waiting import wait_until
from harness.stages.sinks.interface import Copy, SinkLostError, place_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from psycopg.rows import TupleRow

_SCHEMA = """
CREATE TABLE results (
  n BIGSERIAL PRIMARY KEY, value BYTEA, key TEXT,
  partition INT, epoch INT, "offset" BIGINT, name TEXT
);
CREATE TABLE absorbed (
  n BIGSERIAL PRIMARY KEY, id TEXT, partition INT, epoch INT, "offset" BIGINT, name TEXT
);
CREATE TABLE processed (id TEXT PRIMARY KEY);
CREATE TABLE positions (partition INT PRIMARY KEY, "offset" BIGINT);
CREATE TABLE batches (query TEXT, batch BIGINT, PRIMARY KEY (query, batch));
"""
_RECORD = (
    'INSERT INTO results (value, key, partition, epoch, "offset", name) VALUES (%s, %s, %s, %s, '
    "%s, %s)"
)
_ABSORB = 'INSERT INTO absorbed (id, partition, epoch, "offset", name) VALUES (%s, %s, %s, %s, %s)'
_RESULTS = 'SELECT n, value, key, partition, epoch, "offset", name FROM results ORDER BY n'
_ABSORBED = 'SELECT id, partition, epoch, "offset", name FROM absorbed ORDER BY n'
_UNSETTLED = """
SELECT (SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL)
     + (SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database())
"""
CONNECT_S = 5
BACK_S = 60.0
"""How many seconds to wait for a server that is down: longer than any restart in a cell."""


class PostgresSink:
    """A connection to the database ``address``. Each method sends its statement at once; nothing is
    retried here.

    Raises EnvironmentFailure if no server answers there, or if it has no such database.
    """

    def __init__(self, address: str, *, name: str = "lostack", durable: bool = True) -> None:
        self._address = address
        self._name = name
        self._durable = durable
        try:
            self._db = self._connect()
        except psycopg.Error as error:
            raise EnvironmentFailure(
                f"cannot open the sink {_public(address)}: {_line(error)}"
            ) from error

    @staticmethod
    def create(address: str) -> None:
        """Make the tables.

        Raises:
            EnvironmentFailure: the tables cannot be made, or exist already.
        """
        try:
            with psycopg.connect(address, connect_timeout=CONNECT_S) as db:
                db.execute(_SCHEMA)
        except psycopg.Error as error:
            raise EnvironmentFailure(
                f"cannot make the sink {_public(address)}: {_line(error)}"
            ) from error

    def begin(self) -> None:
        """Begin a transaction."""
        self._ask("BEGIN")

    def commit(self) -> None:
        """Commit the transaction.

        Raises:
            SinkLostError: the connection was lost and the COMMIT was not answered; ``in_doubt`` is
                true.
        """
        with self._told(in_doubt=True):
            self._db.execute("COMMIT")

    def reconnect(self) -> None:
        """Make a new connection as soon as the server takes one."""
        self._db.close()
        self._db = wait_until(
            self._connect_if_there,
            within_s=BACK_S,
            because="the database to take connections",
            poll_s=0.05,
        )

    def record(self, value: bytes, key: str | None, copy: Copy) -> None:
        """Write one result."""
        self._ask(_RECORD, (value, key, *place_of(copy)))

    def forget_key(self, key: str) -> None:
        """Remove every result of a key."""
        self._ask("DELETE FROM results WHERE key = %s", (key,))

    def absorb(self, record: str, copy: Copy) -> bool:
        """Remember a processed id; return true if it was processed before (the copy is then counted
        as absorbed).
        """
        known = (
            self._ask(
                "INSERT INTO processed VALUES (%s) ON CONFLICT DO NOTHING", (record,)
            ).rowcount
            == 0
        )
        if known:
            self.absorb_copy(record, copy)
        return bool(known)

    def absorb_batch(self, query: str, batch: int) -> bool:
        """Remember a batch of a query; return true if it was recorded before."""
        return bool(
            self._ask(
                "INSERT INTO batches VALUES (%s, %s) ON CONFLICT DO NOTHING", (query, batch)
            ).rowcount
            == 0
        )

    def absorb_copy(self, record: str, copy: Copy) -> None:
        """Count a copy as absorbed."""
        self._ask(_ABSORB, (record, *place_of(copy)))

    def save_position(self, partition: int, offset: int) -> None:
        """Save the next offset to be read of a partition."""
        self._ask(
            (
                "INSERT INTO positions VALUES (%s, %s) ON CONFLICT (partition) DO UPDATE SET "
                '"offset" = EXCLUDED."offset"'
            ),
            (partition, offset),
        )

    def positions(self) -> dict[int, int]:
        """Return the next offset to be read, per partition."""
        return {int(p): int(o) for p, o in self._ask('SELECT partition, "offset" FROM positions')}

    def results(self) -> Iterator[tuple[int, bytes, str | None, Copy]]:
        """Yield ``(order, value, key, copy)`` of every result in the order of recording."""
        for n, value, key, *copy in self._ask(_RESULTS):
            yield int(n), bytes(value), key, Copy(*copy)

    def absorbed(self) -> Iterator[tuple[str, Copy]]:
        """Yield ``(id, copy)`` of every absorbed copy."""
        for record, *copy in self._ask(_ABSORBED):
            yield str(record), Copy(*copy)

    def size(self) -> tuple[int, int]:
        """Return the numbers of results and of absorbed copies. They change as long as the sink is
        not quiet.
        """
        [(results, absorbed)] = self._ask(
            "SELECT (SELECT count(*) FROM results), (SELECT count(*) FROM absorbed)"
        ).fetchall()
        return int(results), int(absorbed)

    def unsettled(self) -> int:
        """Return how many transactions of other connections are open or prepared: their results may
        still appear.
        """
        [(count,)] = self._ask(_UNSETTLED).fetchall()
        return int(count)

    def close(self) -> None:
        """Close the connection; the open transaction is rolled back."""
        self._db.close()

    def _ask(
        self, statement: str, values: Sequence[object] | None = None
    ) -> psycopg.Cursor[TupleRow]:
        with self._told():
            return self._db.execute(statement, values)

    @contextmanager
    def _told(self, *, in_doubt: bool = False) -> Iterator[None]:
        """Turn a lost connection into :class:`SinkLostError`. Every other error of the server is a
        bug in lostack, and passes.
        """
        try:
            yield
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise SinkLostError(_line(error), in_doubt=in_doubt) from error

    def _connect(self) -> psycopg.Connection[TupleRow]:
        # statements are sent as they are called: BEGIN and COMMIT are this program's own
        db = psycopg.connect(
            self._address, autocommit=True, application_name=self._name, connect_timeout=CONNECT_S
        )
        if not self._durable:
            db.execute("SET synchronous_commit = off")
        return db

    def _connect_if_there(self) -> psycopg.Connection[TupleRow] | None:
        try:
            return self._connect()
        except psycopg.OperationalError:
            return None


def _public(address: str) -> str:
    """Return an address without its password.

    >>> _public("postgresql://me:word@127.0.0.1:5432/cell")
    'postgresql://me@127.0.0.1:5432/cell'
    """
    return re.sub(r"(?<=//)([^/@:]*):[^/@]*@", r"\1@", address)


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
