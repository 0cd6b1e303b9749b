"""A sink by where it is: a file, or the address of a server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.stages.sinks.database import DatabaseSink

if TYPE_CHECKING:
    from harness.stages.sinks.interface import Sink

SERVER = "postgresql://"


def open_sink(where: str, *, name: str = "lostack", durable: bool = True) -> Sink:
    """Connect to the sink at ``where``: an address ``postgresql://…``, or a SQLite file.

    ``name`` is what a server knows this connection by. Unless ``durable``, a server answers a commit before it has written it
    down (SQLite here never waits for the disk).

    Raises:
        EnvironmentFailure: there is no sink at ``where``; nothing is made then. One line.
    """
    if where.startswith(SERVER):
        from harness.stages.sinks.postgres import PostgresSink  # noqa: PLC0415 - brings the driver; a file needs none

        return PostgresSink(where, name=name, durable=durable)
    return DatabaseSink(Path(where))


def create_sink(where: str) -> None:
    """Make the file, or the tables of a new database, at ``where``.

    Raises:
        EnvironmentFailure: the sink at ``where`` cannot be made, or exists already. One line.
    """
    if where.startswith(SERVER):
        from harness.stages.sinks.postgres import PostgresSink  # noqa: PLC0415

        PostgresSink.create(where)
    else:
        DatabaseSink.create(Path(where))
