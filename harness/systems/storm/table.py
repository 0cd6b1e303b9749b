"""The state of a Trident topology in a database table: a row for each key, with the transaction id
beside its value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import psycopg

from harness.model import events as kinds
from harness.model.failures import EnvironmentFailure
from harness.model.record import decode
from harness.run.sinks import NO_ORIGIN, Row, recorded
from harness.systems.kafka.sinks import folded

if TYPE_CHECKING:
    from psycopg.rows import TupleRow

    from harness.run.sinks import Database
    from harness.systems.kafka.scene import Scene

SCHEMA: Final = (
    "CREATE TABLE state (key TEXT PRIMARY KEY, value BYTEA, transaction BIGINT, before TEXT)"
)
"""The same table as in ``jvm/DatabaseStore.java``."""
SIZE: Final = (
    "SELECT count(*), coalesce(sum(transaction), 0), coalesce(sum(length(value)), 0) FROM state"
)
CONNECT_S: Final = 5


class StateTable:
    """The state table of a cell, in an open database. Implements
    :class:`harness.run.sinks.SinkPart`.
    """

    def __init__(self, scene: Scene, database: Database) -> None:
        self._scene = scene
        self._database = database
        self._open: psycopg.Connection[TupleRow] | None = None

    def open(self) -> None:
        """Create the table, over a connection that is not on the wire.

        Raises:
            EnvironmentFailure: the table cannot be created.
        """
        try:
            self._open = psycopg.connect(
                self._database.here, autocommit=True, connect_timeout=CONNECT_S
            )
            self._open.execute(SCHEMA)
        except psycopg.Error as error:
            raise EnvironmentFailure(
                f"cannot create the table of Trident's state: {error}"
            ) from error

    def close(self) -> None:
        """Disconnect."""
        if self._open is not None:
            self._open.close()

    def size(self) -> object:
        """Return a value that changes with each update of the table."""
        return self._ask(SIZE)[0]

    def observe(self) -> None:
        """Write the ids folded into each value, damaged values as results, and the open
        transactions before and after.
        """
        scene = self._scene
        self._database.observe_settled()
        for key, value, transaction in self._ask(
            "SELECT key, value, transaction FROM state ORDER BY key"
        ):
            payload = decode(bytes(value))
            if payload is None or not payload.intact or payload.cell_key != scene.cell.key:
                recorded(scene, Row(bytes(value), key, transaction, NO_ORIGIN))
                continue
            for record, times in folded(bytes(value)):
                scene.history.write(
                    kinds.Folded(key=key, version=transaction, record=record, times=times)
                )
        self._database.observe_settled()

    def _ask(self, query: str) -> list[TupleRow]:
        if self._open is None:
            raise RuntimeError("the table is not open")
        return self._open.execute(query).fetchall()
