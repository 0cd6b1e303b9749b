"""A Delta table is what its log says: held against tables that Delta wrote, and against planted
changes.

``written`` holds small tables as Delta 4.4.0 on Spark 4.2.0 wrote them: ``orders`` (two equal
appends; two batches with an application id, the first of them twice; the second deleted; compacted
by OPTIMIZE), ``by region`` (partitions whose names need escaping) and ``vectors`` (a row deleted by
a deletion vector).
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.pipelines.outputs import Output, OutputKind
from harness.systems.declared.outputs import OutputError, Row, empty_in, results_of
from harness.tables.delta import DeltaTable
from harness.tables.errors import TableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.systems.declared.outputs import Results

WRITTEN = Path(__file__).parent / "written"
ORDERS = ["o0", "o1", "o2"]


def ids(folder: Path) -> list[str]:
    """Return the first column of each row."""
    return [str(row["id"]) for row in DeltaTable(folder).snapshot().rows()]


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """Return a copy of the table ``orders``, which a test may change."""
    return shutil.copytree(WRITTEN / "orders", tmp_path / "orders")


def actions(folder: Path, version: int) -> list[dict[str, Any]]:
    """Return the actions of a version."""
    return [json.loads(line) for line in entry(folder, version).read_text().splitlines()]


def entry(folder: Path, version: int) -> Path:
    """Return the file of a version in the log."""
    return folder / "_delta_log" / f"{version:020}.json"


def write(folder: Path, version: int, *them: dict[str, Any]) -> None:
    """Write a version."""
    entry(folder, version).parent.mkdir(parents=True, exist_ok=True)
    entry(folder, version).write_text("".join(f"{json.dumps(each)}\n" for each in them))


def back_to(folder: Path, version: int) -> None:
    """Take the table back to a version."""
    for each in range(version + 1, DeltaTable(folder).version() + 1):
        entry(folder, each).unlink()


# --- what Delta wrote -----------------------------------------------------------------------------


def test_rows_are_those_that_spark_reads(orders: Path) -> None:
    """Rows that were appended twice are there twice; a batch that the table left out for its number
    is there once, a deleted one not at all, and what was compacted counts once.
    """
    assert ids(orders) == [*ORDERS, *ORDERS, "o3", "o4"]
    assert len(list(orders.glob("*.parquet"))) == 6  # of which the table has one


@pytest.mark.parametrize(
    ("version", "found"),
    [
        (0, ORDERS),
        (1, [*ORDERS, *ORDERS]),
        (2, [*ORDERS, *ORDERS, "o3", "o4"]),
        (3, [*ORDERS, *ORDERS, "o3", "o4", "o5", "o6"]),
        (4, [*ORDERS, *ORDERS, "o3", "o4"]),
    ],
)
def test_each_version_has_its_rows_in_the_order_of_their_commits(
    orders: Path, version: int, found: Sequence[str]
) -> None:
    """A version adds what its writer committed with it."""
    back_to(orders, version)
    assert DeltaTable(orders).version() == version
    assert ids(orders) == found


def test_columns_of_partitions_are_in_the_log_alone() -> None:
    """Their values may need escaping, twice in a path; an empty one is null."""
    rows = DeltaTable(WRITTEN / "by region").snapshot().rows()
    assert {tuple(row.values()) for row in rows} == {("p0", "a b"), ("p1", None), ("p2", "c/d")}


# --- what is planted ------------------------------------------------------------------------------


def test_a_file_that_no_version_has_does_not_count(orders: Path) -> None:
    """A writer that dies before its commit leaves one."""
    back_to(orders, 1)
    [added] = [each["add"]["path"] for each in actions(orders, 1) if "add" in each]
    shutil.copy(orders / added, orders / "part-00000-orphan.snappy.parquet")
    assert ids(orders) == [*ORDERS, *ORDERS]


def test_a_version_that_is_taken_away_takes_its_rows(orders: Path) -> None:
    """The planted loss: the file is still there."""
    back_to(orders, 3)
    write(orders, 2, *(each for each in actions(orders, 2) if "add" not in each))
    assert ids(orders) == [*ORDERS, *ORDERS, "o5", "o6"]


def test_a_file_that_is_committed_under_a_second_name_counts_twice(orders: Path) -> None:
    """The planted duplicate."""
    back_to(orders, 3)
    [added] = [each for each in actions(orders, 2) if "add" in each]
    shutil.copy(orders / added["add"]["path"], orders / "again.parquet")
    write(orders, 4, {"add": added["add"] | {"path": "again.parquet"}})
    assert ids(orders)[-2:] == ["o3", "o4"]
    assert ids(orders).count("o3") == 2


def test_a_file_that_is_added_again_counts_once(orders: Path) -> None:
    """As the format says: a version may repeat an add, for example with other statistics."""
    back_to(orders, 3)
    write(orders, 4, *(each for each in actions(orders, 2) if "add" in each))
    assert ids(orders).count("o3") == 1


def lose_a_file(folder: Path) -> None:
    """Remove the one file of the table."""
    [path] = [file.path for file in DeltaTable(folder).snapshot().files]
    path.unlink()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lose_a_file, "version 5 of the table has the file"),
        (lambda folder: entry(folder, 2).unlink(), "the log of .* is not whole: it has 5 versions"),
        (lambda folder: entry(folder, 0).unlink(), "5 versions, 1 to 5; lostack reads a log from"),
        (lambda folder: entry(folder, 3).write_text('{"add": {'), "is damaged: .*3.json"),
        (lambda folder: entry(folder, 3).write_text('{"add": {"pa": 1}}'), "damaged: .*`path`"),
        (lambda folder: entry(folder, 3).write_text("[]"), "is damaged"),
        (lambda folder: write(folder, 0, {}), "does not say which columns"),
        (lambda folder: shutil.rmtree(folder / "_delta_log"), "no version in _delta_log"),
    ],
)
def test_what_is_not_whole_is_no_table(
    orders: Path, damage: Callable[[Path], object], said: str
) -> None:
    """No row of it is told, neither as there nor as lost."""
    damage(orders)
    with pytest.raises(TableError, match=said):
        ids(orders)


@pytest.mark.parametrize(
    "name",
    ["checkpoint.parquet", "checkpoint.0000000001.0000000002.parquet", "checkpoint.80a083.json"],
)
def test_a_log_that_begins_behind_a_checkpoint_is_told_from_a_damaged_one(
    orders: Path, name: str
) -> None:
    """Its writer has removed what is older than the table keeps; the table is valid."""
    checkpoint = orders / "_delta_log" / f"{3:020}.{name}"
    checkpoint.touch()
    assert ids(orders), "the whole log is there, too"
    for version in range(3):
        entry(orders, version).unlink()
    said = r"has the versions before 3 only in a checkpoint .*\(kind = \"command\"\)"
    with pytest.raises(TableError, match=said):
        ids(orders)


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ({"protocol": {"minReaderVersion": 4}}, "reader version 4"),
        (
            {
                "protocol": {
                    "minReaderVersion": 3,
                    "readerFeatures": ["variantType", "timestampNtz"],
                }
            },
            "features variantType, which lostack cannot read",
        ),
        ({"add": {"path": "s3://elsewhere/part.parquet"}}, r"files elsewhere \(s3\)"),
        (
            {
                "metaData": {
                    "configuration": {"delta.columnMapping.mode": "id"},
                    "schemaString": '{"fields": []}',
                }
            },
            "maps its columns by number",
        ),
    ],
)
def test_what_is_not_known_of_the_format_is_refused(
    orders: Path, action: dict[str, Any], said: str
) -> None:
    """It could hide rows, or show some that are none."""
    write(orders, 6, action)
    with pytest.raises(TableError, match=said):
        ids(orders)


def test_rows_deleted_by_a_vector_are_refused_until_the_file_is_rewritten(tmp_path: Path) -> None:
    """The file still has them."""
    table = shutil.copytree(WRITTEN / "vectors", tmp_path / "vectors")
    with pytest.raises(TableError, match=r"deletion vectors .*PURGE"):
        ids(table)
    [path] = [each["add"]["path"] for each in actions(table, 2) if "add" in each]
    write(table, 3, {"remove": {"path": path}})
    assert ids(table) == []


def test_a_renamed_column_is_found_by_its_physical_name(tmp_path: Path) -> None:
    """The files keep it under that; one that a file does not have is null."""
    pq.write_table(pa.table({"col-1": ["m0"], "col-2": [7]}), tmp_path / "0.parquet")
    named = [
        {"name": name, "metadata": {"delta.columnMapping.physicalName": physical}}
        for name, physical in (("number", "col-2"), ("id", "col-1"), ("new", "col-3"))
    ]
    schema = {"configuration": {}, "schemaString": json.dumps({"fields": named})}
    write(
        tmp_path,
        0,
        {"protocol": {"minReaderVersion": 2}},
        {"metaData": schema},
        {"add": {"path": "0.parquet", "partitionValues": {}}},
    )
    [row] = DeltaTable(tmp_path).snapshot().rows()
    assert row == {"number": 7, "id": "m0", "new": None}


# --- as the output of a declared pipeline ---------------------------------------------------------


def output_of(folder: Path) -> Results:
    """Return the reader of a declared output of kind delta, below {work}."""
    output = Output(kind=OutputKind.DELTA, file="{work}/orders")
    return results_of(output, {"work": folder}, folder, folder / "log")


def test_as_an_output_every_row_is_a_result(orders: Path) -> None:
    """Its columns are joined."""
    results = output_of(orders.parent)
    assert results.rows() == ["o0 0", "o1 1", "o2 2", "o0 0", "o1 1", "o2 2", "o3 0", "o4 1"]


def test_as_an_output_its_columns_have_their_names(orders: Path) -> None:
    """A path of JSON begins with one."""
    assert [row.json for row in output_of(orders.parent).rows()[:2] if isinstance(row, Row)] == [
        '{"id": "o0", "total": 0}',
        '{"id": "o1", "total": 1}',
    ]


def test_only_a_version_with_other_files_changes_an_output(orders: Path) -> None:
    """A batch without records may write a version all the same."""
    results = output_of(orders.parent)
    whole = results.size()
    write(orders, 6, {"txn": {"appId": "booking", "version": 9}})
    assert results.size() == whole
    write(orders, 7, {"add": {"path": "more.parquet", "partitionValues": {}}})
    assert results.size() != whole
    back_to(orders, 5)
    assert results.size() == whole


def test_a_null_does_not_make_a_row_of_a_table_unfinished(tmp_path: Path) -> None:
    """A commit has whole rows, as a file of Parquet has; of a query's row it is not known."""
    output = Output(kind=OutputKind.DELTA, file=str(WRITTEN / "by region"))
    rows = results_of(output, {}, WRITTEN, WRITTEN / "log").rows()
    pq.write_table(pa.table({"id": ["p1"], "region": [None]}), tmp_path / "p.parquet")
    output = Output(kind=OutputKind.PARQUET, file="p.parquet")
    in_file = results_of(output, {}, tmp_path, tmp_path / "log").rows()
    (tmp_path / "p.db").touch()  # a database without tables
    output = Output(kind=OutputKind.SQLITE, file="p.db", query="SELECT 'p1', NULL")
    queried = results_of(output, {}, tmp_path, tmp_path / "log").rows()
    assert {str(row): empty_in(row) for row in rows}["p1 None"] == set()
    assert {str(row): empty_in(row) for row in in_file} == {"p1 None": set()}
    assert {str(row): empty_in(row) for row in queried} == {"p1 None": {2}}


def test_an_output_that_is_not_there_yet_is_no_result(tmp_path: Path) -> None:
    """The run goes on; at its end it is told what is missing."""
    results = output_of(tmp_path)
    nothing = results.size()
    write(tmp_path / "orders", 0, {"commitInfo": {}})
    assert results.size() != nothing
    shutil.rmtree(tmp_path / "orders")
    assert results.size() == nothing
    with pytest.raises(OutputError, match="orders is no Delta table"):
        results.rows()
