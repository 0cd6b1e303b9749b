"""The rows of a query's files, as results with the places that they name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.stages.querying import QuerySettings
from harness.systems.spark import files
from harness.systems.spark.files import FileSink

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from harness.run.sinks import Row


def test_a_row_is_read_as_spark_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Key and value are bytes, as Kafka has them; the origin is a text, for the query has made it
    of numbers.
    """
    (tmp_path / "files").mkdir()
    table = pa.table(
        {"key": [b"k0", b"k1"], "value": [b"one", b"two"], "origin": ["2.-1.8", "0.-1.3"]}
    )
    pq.write_table(table, tmp_path / "files" / "part-00001.snappy.parquet")
    rows: list[Row] = []
    monkeypatch.setattr(files, "recorded", lambda _, row: rows.append(row))
    scene: Any = SimpleNamespace(
        directory=tmp_path,
        settings=SimpleNamespace(consumer=SimpleNamespace(query=QuerySettings(listed=True))),
    )
    FileSink(scene).observe()
    assert [(row.key, row.value, row.order, row.origin) for row in rows] == [
        ("k0", b"one", 1, (2, -1, 8)),
        ("k1", b"two", 2, (0, -1, 3)),
    ]
