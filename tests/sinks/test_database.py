"""The sink in a file: what programs have written is read as they have written it, every row, and every copy turned away."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from harness.sinks.database import DatabaseSink
from harness.sinks.interface import Copy
from harness.systems.declared.outputs import Sqlite

if TYPE_CHECKING:
    from pathlib import Path


def test_what_was_recorded_is_read_row_by_row(tmp_path: Path) -> None:
    """In the order of recording, twice where it was recorded twice, each with its own place; by another connection."""
    file = tmp_path / "sink.db"
    DatabaseSink.create(file)
    written = [(b"a", "k", Copy(0, 1, 5)), (b"b", None, Copy(1, 0, 7)), (b"a", "k", Copy(0, 1, 5)), (b"a", "k", Copy(0, 2, 6))]
    with closing(DatabaseSink(file)) as program:
        program.begin()
        for row in written:
            program.record(*row)
        assert not program.absorb("b", Copy(1, 0, 7))
        assert program.absorb("b", Copy(1, 0, 8))
        program.commit()
    with closing(DatabaseSink(file)) as reader:
        assert list(reader.results()) == [(n, *row) for n, row in enumerate(written, start=1)]
        assert list(reader.absorbed()) == [("b", Copy(1, 0, 8))]
        assert reader.size() == (4, 1)
    assert list(Sqlite(file, "SELECT value FROM results ORDER BY n").rows()) == ["a", "b", "a", "a"]
