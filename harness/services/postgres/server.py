"""A PostgreSQL server on a port of its own; the harness reaches it directly, the programs through
the wire.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from harness.model.failures import EnvironmentFailure
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.services.postgres.program import NODE, USER

if TYPE_CHECKING:
    from pathlib import Path

    from harness.runtimes.interface import Exit, Node, NodeSpec, Runtime
    from harness.services.postgres.program import PostgresProgram

INITIALISE_S = 60.0
START_S = 60.0
ANSWER_S = 3
STOP_S = 5.0
HARNESS = "127.0.0.1"
"""The address at which the harness reaches the server. A container's port is published there under
the same number.
"""


class PostgresServer:
    """A running server; its data lies in ``directory``."""

    def __init__(
        self, runtime: Runtime, program: PostgresProgram, port: int, directory: Path
    ) -> None:
        self._runtime = runtime
        self._program = program
        self._directory = directory
        self._password = secrets.token_hex(16)
        self.port = port
        self._node: Node | None = None
        self._killed = False

    @property
    def node(self) -> Node:
        """The server's process or container."""
        if self._node is None:
            raise RuntimeError("PostgreSQL was never started")
        return self._node

    def start(self) -> None:
        """Make a database cluster if there is none, start the server, and wait until it answers a
        query.

        Raises:
            EnvironmentFailure: the server does not start.
        """
        if self._node is None and (spec := self._initialise()) is not None:
            end = (tool := self._runtime.start(spec)).wait(INITIALISE_S)
            if end is None or end.status != 0:
                raise EnvironmentFailure(
                    f"initdb of PostgreSQL failed ({end or 'it did not end in time'}): "
                    f"{tool.log_tail(3)}"
                )
        self._node = self._runtime.start(
            self._program.server(self._directory, self.port, self._runtime.bind, self._password)
        )
        self._killed = (
            False  # of the new one; till here the dead one must not be taken for an accident
        )
        try:
            wait_until(
                self._answers_or_died,
                within_s=START_S,
                because="PostgreSQL to answer a query",
                poll_s=0.05,
            )
        except WaitTimeoutError as error:
            raise EnvironmentFailure(
                f"PostgreSQL did not start: {error}; its log: {self.node.log_path}"
            ) from error

    def _initialise(self) -> NodeSpec | None:
        return self._program.initialise(self._directory, self._password)

    def kill(self) -> Exit:
        """Send SIGKILL to the server and all its processes. The operating system keeps what they
        had written.
        """
        self._killed = True
        return self._program.kill(self.node)

    def stop(self) -> None:
        """Shut the server down in order, so that it removes its shared memory (which would survive
        SIGKILL).
        """
        if self._node is not None and self._node.exit is None:
            self._node.terminate(STOP_S)
        self._program.forget(self._directory)

    def check(self) -> None:
        """Make sure that the server has not ended by itself.

        Raises:
            EnvironmentFailure: the server ended, and the harness did not kill it.
        """
        if self._node is not None and self._node.exit is not None and not self._killed:
            raise EnvironmentFailure(
                f"PostgreSQL ended ({self._node.exit}): {self._node.log_tail(3)}"
            )

    def create(self, database: str) -> None:
        """Make an empty database. One of the same name is dropped first."""
        with psycopg.connect(
            self.address("postgres"), autocommit=True, connect_timeout=ANSWER_S
        ) as db:
            name = sql.Identifier(database)
            db.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))
            db.execute(sql.SQL("CREATE DATABASE {}").format(name))

    def address(self, database: str, *, host: str = HARNESS, port: int | None = None) -> str:
        """Return the URL of a database, with the password. ``host`` and ``port``: those of the
        wire, for programs that connect through it.
        """
        # nothing is encrypted or negotiated: the wire reads along
        place = f"{USER}:{self._password}@{host}:{port or self.port}/{database}"
        return f"postgresql://{place}?sslmode=disable&gssencmode=disable"

    def _answers_or_died(self) -> bool:
        self._runtime.check()
        self.check()
        try:
            with psycopg.connect(self.address("postgres"), connect_timeout=ANSWER_S) as db:
                return db.execute("SELECT 1").fetchone() == (1,)
        except psycopg.OperationalError:
            return False


__all__ = ["NODE", "PostgresServer"]
