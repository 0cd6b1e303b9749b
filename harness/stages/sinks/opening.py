"""Open or make a sink by its place: a file, or the address of a server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from harness.stages.sinks.database import DatabaseSink

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.stages.sinks.interface import Sink


class ServerSink(Protocol):
    """What the class of a sink on a server can do."""

    def __call__(self, address: str, *, name: str, durable: bool) -> Sink:
        """Connect to the sink at an address."""

    def create(self, address: str) -> None:
        """Make the tables of a new database at an address."""


def _postgres() -> ServerSink:
    from harness.stages.sinks.postgres import PostgresSink  # noqa: PLC0415 - brings the driver; a file needs none

    return PostgresSink


SERVERS: Final[Mapping[str, Callable[[], ServerSink]]] = {"postgresql": _postgres}
"""The sinks on servers: the scheme of their addresses, and what imports their class."""


def _on_server(where: str) -> ServerSink | None:
    scheme, is_address, _ = where.partition("://")
    return SERVERS[scheme]() if is_address and scheme in SERVERS else None


def open_sink(where: str, *, name: str = "lostack", durable: bool = True) -> Sink:
    """Connect to the sink at ``where``: an address ``postgresql://…``, or a SQLite file.

    ``name`` is this connection's name on a server. ``durable``: whether the server writes a commit
    to disk before it answers it (lostack's SQLite sinks never wait for the disk).

    Raises:
        EnvironmentFailure: there is no sink at ``where``. The message is one line. Nothing is made.
    """
    kind = _on_server(where)
    return DatabaseSink(Path(where)) if kind is None else kind(where, name=name, durable=durable)


def create_sink(where: str) -> None:
    """Make the file, or the tables of a new database, at ``where``.

    Raises:
        EnvironmentFailure: the sink at ``where`` cannot be made, or exists already. The message is
            one line.
    """
    kind = _on_server(where)
    if kind is None:
        DatabaseSink.create(Path(where))
    else:
        kind.create(where)
