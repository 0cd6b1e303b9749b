"""The kinds of sinks that the suite in ``test_sinks.py`` is run against: one line for each."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from harness.stages.sinks.database import DatabaseSink
from harness.stages.sinks.opening import create_sink
from harness.stages.sinks.postgres import PostgresSink
from tests.contract.writer import opened

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.services.postgres.server import PostgresServer
    from harness.stages.sinks.interface import Sink

OPENER = "harness.stages.sinks.opening:open_sink"
_NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class SinkKind:
    """How the suite gets at the sinks of one kind."""

    new: Callable[[], str]
    """Return a place where a sink can be made. What was made before may be gone."""
    nowhere: str
    """A place where there is none."""
    unusable: tuple[str, ...]
    """Places where none can be made."""
    opener: str = OPENER
    """What opens one, ``module:function``, in another process too."""
    create: Callable[[str], None] = create_sink
    """What makes one."""

    def made(self) -> str:
        """Make a sink; return where it is."""
        where = self.new()
        self.create(where)
        return where

    def open(self, where: str) -> Sink:
        """Connect to a sink."""
        return opened(self.opener, where)


def in_files(request: pytest.FixtureRequest) -> SinkKind:
    """SQLite files in a folder of the test's own."""
    return files_below(request.getfixturevalue("tmp_path"))


def files_below(folder: Path) -> SinkKind:
    """SQLite files in a folder."""
    taken = folder / "taken"
    taken.write_text("no folder")
    return SinkKind(
        lambda: str(folder / f"sink-{next(_NUMBERS)}.sqlite"),
        str(folder / "none.sqlite"),
        (str(taken / "sink.sqlite"), str(folder)),
    )


def on_a_server(request: pytest.FixtureRequest) -> SinkKind:
    """Databases of one PostgreSQL server."""
    server: PostgresServer = request.getfixturevalue("server")

    def new() -> str:
        server.create(
            "contract"
        )  # over the one before: each that stays costs a third of a second at the end
        return server.address("contract")

    return SinkKind(
        new, server.address("none"), (server.address("none"), server.address("postgres", port=1))
    )


SINKS: dict[
    str,
    tuple[
        type[Sink], Callable[[pytest.FixtureRequest], SinkKind], tuple[pytest.MarkDecorator, ...]
    ],
] = {
    "sqlite": (DatabaseSink, in_files, ()),
    "postgres": (PostgresSink, on_a_server, (pytest.mark.postgres,)),
}
"""The class of each kind, how the suite gets at it, and what it needs. A new sink is a
line here.
"""


def sink_params() -> list[Any]:
    """Return the kinds as parameters of a fixture."""
    return [pytest.param(make, id=name, marks=marks) for name, (_, make, marks) in SINKS.items()]
