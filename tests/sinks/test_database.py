"""The sink in a file: what declared pipelines read of one, and a disk that is full."""

from __future__ import annotations

import contextlib
import resource
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from harness.model.failures import EnvironmentFailure
from harness.stages.sinks.database import DatabaseSink
from harness.stages.sinks.interface import Copy
from harness.systems.declared.outputs import Sqlite

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AT = Copy(0, 1, 5)


@contextlib.contextmanager
def room_for(size: int) -> Iterator[None]:
    """Let no file grow beyond so many bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def write(sink: DatabaseSink, *values: bytes) -> None:
    """Record values in one transaction."""
    sink.begin()
    for value in values:
        sink.record(value, "k", AT)
    sink.commit()


def test_a_declared_pipeline_s_reader_sees_every_row(tmp_path: Path) -> None:
    file = tmp_path / "sink.db"
    DatabaseSink.create(file)
    with closing(DatabaseSink(file)) as sink:
        write(sink, b"a", b"b", b"a", b"a")
    assert list(Sqlite(file, "SELECT value FROM results ORDER BY n").rows()) == ["a", "b", "a", "a"]


def test_a_full_disk_has_no_room_for_a_sink(tmp_path: Path) -> None:
    file = tmp_path / "sink.db"
    with room_for(0), pytest.raises(EnvironmentFailure) as failure:
        DatabaseSink.create(file)
    assert str(file) in str(failure.value)
    assert "\n" not in str(failure.value)


def test_a_transaction_that_does_not_fit_is_none(tmp_path: Path) -> None:
    file = tmp_path / "sink.db"
    DatabaseSink.create(file)
    with closing(DatabaseSink(file)) as sink, closing(DatabaseSink(file)) as reader:
        write(sink, b"kept")
        with room_for(1 << 20), pytest.raises(sqlite3.OperationalError):
            write(sink, b"", bytes(2 << 20))
        sink.reconnect()
        assert [value for _, value, _, _ in reader.results()] == [b"kept"]
        write(sink, b"later")
        assert [value for _, value, _, _ in reader.results()] == [b"kept", b"later"]
