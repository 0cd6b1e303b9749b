"""The rows of a query's table, as results with the places that they name; and who gets a table
format.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.model.cell import Cell
from harness.model.failures import EnvironmentFailure
from harness.model.scenario import Predicted
from harness.model.semantics import Semantic
from harness.provision.inside_pyspark import pyspark_version
from harness.provision.jars import read_jar_set
from harness.provision.table_formats import DELTA, ICEBERG, ensure_table_format
from harness.stages.queries import STREAM_TO_DELTA, STREAM_TO_ICEBERG
from harness.systems.spark import tables
from harness.systems.spark.about import SYSTEM
from harness.systems.spark.system import CLIENT, Needed
from harness.systems.spark.tables import TableSink
from scenarios.streaming import STREAMING
from scenarios.streaming_iceberg import ICEBERG_TABLES
from scenarios.streaming_tables import TABLES

if TYPE_CHECKING:
    from pathlib import Path

    from harness.model.scenario import Scenario
    from harness.run.sinks import Row


def sink_in(folder: Path) -> TableSink:
    """Return the sink of a cell in this folder."""
    scene: Any = SimpleNamespace(directory=folder, cell=cell(TABLES[0]))
    return TableSink(scene)


def test_a_row_is_read_as_spark_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Key and value are bytes, as Kafka has them; the origin is a text."""
    log = tmp_path / "table" / "_delta_log" / f"{0:020}.json"
    log.parent.mkdir(parents=True)
    columns = {"key": [b"k0"], "value": [b"one"], "origin": ["2.-1.8"]}
    pq.write_table(pa.table(columns), tmp_path / "table" / "part.parquet")
    fields = json.dumps({"fields": [{"name": name, "metadata": {}} for name in columns]})
    actions = ({"metaData": {"schemaString": fields}}, {"add": {"path": "part.parquet"}})
    log.write_text("\n".join(map(json.dumps, actions)))
    rows: list[Row] = []
    monkeypatch.setattr(tables, "recorded", lambda _, row: rows.append(row))
    sink_in(tmp_path).observe()
    assert [(row.key, row.value, row.order, row.origin) for row in rows] == [
        ("k0", b"one", 1, (2, -1, 8))
    ]
    assert sink_in(tmp_path).size() == 0


def test_without_a_table_there_is_no_result(tmp_path: Path) -> None:
    """A query that wrote nothing has lost everything; that is no fault of the instrument."""
    assert sink_in(tmp_path).size() == -1
    sink_in(tmp_path).observe()


def cell(scenario: Scenario, runtime: str = "process") -> Cell:
    """Return a cell of a scenario."""
    return Cell(scenario, Semantic.EXACTLY_ONCE, "spark", CLIENT, runtime, 1, 24)


def test_only_cells_with_a_table_get_its_format() -> None:
    """No other session has its jars, and nothing is fetched for them."""
    for each in STREAMING:
        assert Needed.by(cell(each)).table == {
            STREAM_TO_DELTA: "delta",
            STREAM_TO_ICEBERG: "iceberg",
        }.get(each.pipeline, "")
    names = {
        Needed(client, table).session
        for client in (CLIENT, "x==1")
        for table in ("", "delta", "iceberg")
    }
    assert len(names) == 6


def test_in_containers_there_is_no_table_format() -> None:
    """The image has none; what is said is why."""
    for each in (*TABLES, *ICEBERG_TABLES):
        assert SYSTEM.lacks(cell(each)) is None
        told = SYSTEM.lacks(cell(each, "docker"))
        assert told == "the image of runtime docker has no table format"


def test_a_table_format_is_built_for_one_spark() -> None:
    """Another Spark that the user asks for is refused, with what to do. Delta's is the installed
    one; Iceberg's is fetched.
    """
    assert len(read_jar_set(f"delta-{DELTA.release}").sums) == 5
    assert DELTA.spark == pyspark_version() != ICEBERG.spark
    with pytest.raises(
        EnvironmentFailure, match=r"built for Spark 4\.2\.0, and none is known for Spark 4\.0\.1"
    ):
        ensure_table_format(DELTA, pyspark_version(), print, "4.0.1")


def test_the_sale_of_what_cannot_be_kept_is_a_control() -> None:
    """Each settings of exactly-once that loses or duplicates by design must be convicted."""
    sold = {
        scenario.id
        for scenario in (*TABLES, *ICEBERG_TABLES)
        for expectation in scenario.expect.values()
        if isinstance(expectation, Predicted) and expectation.control
    }
    assert sold == {
        "checkpoint-lost",  # with Iceberg
        "checkpoint-lost+native",
        "checkpoint-lost+resumed",
        "zombie-driver",
    }
