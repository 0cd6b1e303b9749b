"""Open or make a sink by its place: a file, or the address of a server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.stages.sinks.database import DatabaseSink

if TYPE_CHECKING:
    from harness.stages.sinks.interface import Sink

SERVER = "postgresql://"


def open_sink(where: str, *, name: str = "lostack", durable: bool = True) -> Sink:
    """Connect to the sink at ``where``: an address ``postgresql://…``, or a SQLite file.

    ``name`` is this connection's name on a server. ``durable``: whether the server writes a commit
    to disk before it answers it (lostack's SQLite sinks never wait for the disk).

    Raises:
        EnvironmentFailure: there is no sink at ``where``. The message is one line. Nothing is made.
    """
    if where.startswith(SERVER):
        from harness.stages.sinks.postgres import PostgresSink  # noqa: PLC0415 - brings the driver; a file needs none

        return PostgresSink(where, name=name, durable=durable)
    return DatabaseSink(Path(where))


def create_sink(where: str) -> None:
    """Make the file, or the tables of a new database, at ``where``.

    Raises:
        EnvironmentFailure: the sink at ``where`` cannot be made, or exists already. The message is
            one line.
    """
    if where.startswith(SERVER):
        from harness.stages.sinks.postgres import PostgresSink  # noqa: PLC0415

        PostgresSink.create(where)
    else:
        DatabaseSink.create(Path(where))
