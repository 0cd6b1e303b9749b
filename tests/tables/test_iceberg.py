"""An Iceberg table is what its newest metadata says: held against tables that PyIceberg wrote, and
against planted changes.

``written/iceberg`` holds two tables of PyIceberg 0.12.0, whose metadata files have the names that a
Hadoop catalog gives: ``orders`` (two equal appends, a third that is deleted, a fourth) and
``renamed`` (an append, a column that is renamed, an append).
"""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.pipelines.outputs import Output, OutputKind
from harness.systems.declared.outputs import OutputError, Table, results_of
from harness.tables.errors import TableError
from harness.tables.iceberg import IcebergTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WRITTEN = Path(__file__).parent / "written" / "iceberg"
ORDERS = ["o0", "o1", "o2"]


def ids(folder: Path) -> list[str]:
    """Return the first column of each row."""
    return [str(row["id"]) for row in IcebergTable(folder).rows()]


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """Return a copy of the table ``orders``, which a test may change."""
    return shutil.copytree(WRITTEN / "orders", tmp_path / "orders")


def output_of(orders: Path) -> Table:
    """Return the table as the output of a pipeline."""
    output = Output(kind=OutputKind.ICEBERG, file="{work}/orders")
    results = results_of(output, {"work": orders.parent}, orders, orders / "log")
    assert isinstance(results, Table)
    return results


def metadata(folder: Path, version: int = 6) -> Path:
    """Return the file of a version."""
    return folder / "metadata" / f"v{version}.metadata.json"


def change(file: Path, **fields: Any) -> None:
    """Change fields of a version's metadata."""
    told = json.loads(file.read_text())
    file.write_text(json.dumps(told | {name.replace("_", "-"): of for name, of in fields.items()}))


def newest_manifest(folder: Path) -> Path:
    """Return the manifest that the fourth append has added."""
    return next(
        path
        for path in (folder / "metadata").glob("*-m0.avro")
        if entries(path)[0]["status"] == 1 and entries(path)[0]["data_file"]["record_count"] == 1
    )


def entries(path: Path) -> list[dict[str, Any]]:
    """Return the records of an Avro file."""
    with path.open("rb") as file:
        return [dict(record) for record in fastavro.reader(file) if isinstance(record, dict)]


def rewrite(path: Path, of: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Change each record of an Avro file."""
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        schema, records = reader.writer_schema, [dict(each) for each in reader]  # type: ignore[arg-type]
    assert schema is not None
    with path.open("wb") as file:
        fastavro.writer(file, schema, [of(each) for each in records])


@pytest.mark.parametrize(
    ("version", "found"),
    [
        (1, []),
        (2, ORDERS),
        (3, [*ORDERS, *ORDERS]),
        (4, [*ORDERS, *ORDERS, "o3", "o4"]),
        (5, [*ORDERS, *ORDERS]),
        (6, [*ORDERS, *ORDERS, "o5"]),
    ],
)
def test_each_version_has_its_rows_in_the_order_of_their_commits(
    orders: Path, version: int, found: Sequence[str]
) -> None:
    """What was appended twice is there twice, and a file that a later version dropped not at
    all.
    """
    for later in range(version + 1, 7):
        metadata(orders, later).unlink()
    assert IcebergTable(orders).version() == version
    assert ids(orders) == found


def test_a_renamed_column_is_found_by_its_number() -> None:
    """Older files have it under its old name."""
    assert list(IcebergTable(WRITTEN / "renamed").rows()) == [
        {"id": "m0", "count": 0},
        {"id": "m1", "count": 7},
    ]


def test_metadata_of_a_writer_that_died_is_no_version(orders: Path) -> None:
    """Before the rename it has another name; and its data file is in no snapshot."""
    left = orders / "metadata" / "7f0c.metadata.json"
    shutil.copy(metadata(orders), left)
    change(left, current_snapshot_id=1)
    pq.write_table(pa.table({"id": ["orphan"]}), orders / "data" / "orphan.parquet")
    assert ids(orders) == [*ORDERS, *ORDERS, "o5"]


@pytest.mark.parametrize("name", ["v6.gz.metadata.json", "v6.metadata.json.gz"])
def test_compressed_metadata_is_a_version(orders: Path, name: str) -> None:
    """Passed over, it would leave the table at an older version, and its last rows lost."""
    plain = metadata(orders)
    compressed = plain.with_name(name)
    compressed.write_bytes(gzip.compress(plain.read_bytes()))
    whole = ids(orders)
    plain.unlink()
    assert IcebergTable(orders).version() == 6
    assert ids(orders) == whole
    compressed.write_bytes(compressed.read_bytes()[:-9])
    with pytest.raises(TableError, match="cannot be read"):
        ids(orders)


def test_a_file_that_is_taken_out_of_its_manifest_takes_its_rows(orders: Path) -> None:
    """The planted loss."""
    rewrite(newest_manifest(orders), lambda entry: entry | {"status": 2})
    assert ids(orders) == [*ORDERS, *ORDERS]


def test_a_file_that_is_registered_twice_counts_twice(orders: Path) -> None:
    """The planted duplicate: the same batch, committed by two snapshots."""
    manifest, other = newest_manifest(orders), orders / "metadata" / "again.avro"
    shutil.copy(manifest, other)
    told = json.loads(metadata(orders).read_text())
    name = next(
        each["manifest-list"]
        for each in told["snapshots"]
        if each["snapshot-id"] == told["current-snapshot-id"]
    )
    path = orders / name.removeprefix(f"{told['location']}/")
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        schema, records = reader.writer_schema, [dict(each) for each in reader]  # type: ignore[arg-type]
    assert schema is not None
    [added] = [each for each in records if each["manifest_path"].endswith(manifest.name)]
    again = added | {"manifest_path": f"{told['location']}/metadata/{other.name}"}
    with path.open("wb") as file:
        fastavro.writer(file, schema, [*records, again])
    assert ids(orders) == [*ORDERS, *ORDERS, "o5", "o5"]


def no_ids(folder: Path) -> None:
    """Write every data file again without the numbers of its columns."""
    for file in folder.glob("data/*.parquet"):
        pq.write_table(pa.table({"id": ["x"], "total": [1]}), file)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: newest_manifest(folder).unlink(), "the manifest .* cannot be read"),
        (lambda folder: newest_manifest(folder).write_bytes(b"Obj"), "the manifest .* cannot"),
        (lambda folder: metadata(folder).write_text("{"), "the metadata .*v6"),
        (lambda folder: shutil.rmtree(folder / "data"), "the table has the file"),
        (lambda folder: change(metadata(folder), format_version=4), "has format version 4"),
        (lambda folder: change(metadata(folder), snapshots=[]), "no list of manifests"),
        (
            lambda folder: rewrite(
                newest_manifest(folder),
                lambda entry: entry | {"data_file": entry["data_file"] | {"content": 1}},
            ),
            "has delete files",
        ),
        (
            lambda folder: rewrite(
                newest_manifest(folder),
                lambda entry: entry | {"data_file": entry["data_file"] | {"file_format": "ORC"}},
            ),
            "has files of format ORC",
        ),
        (
            lambda folder: rewrite(
                newest_manifest(folder),
                lambda entry: (
                    entry
                    | {
                        "data_file": entry["data_file"]
                        | {"file_path": "s3://elsewhere/part.parquet"}
                    }
                ),
            ),
            r"has files elsewhere \(s3\)",
        ),
        (no_ids, "have no field ids"),
    ],
)
def test_what_is_damaged_or_unknown_is_no_table(
    orders: Path, damage: Callable[[Path], object], said: str
) -> None:
    """No row of it is told, neither as there nor as lost."""
    damage(orders)
    with pytest.raises(TableError, match=said):
        ids(orders)


def snapshots(folder: Path) -> list[dict[str, Any]]:
    """Return the snapshots of the newest version, the oldest first."""
    found: list[dict[str, Any]] = json.loads(metadata(folder).read_text())["snapshots"]
    return found


@pytest.mark.parametrize("present", [-1, None])
def test_rows_in_a_branch_alone_are_named(orders: Path, present: int | None) -> None:
    """A pipeline that writes into a branch has not published it."""
    refs = {"audit": {"snapshot-id": snapshots(orders)[-1]["snapshot-id"], "type": "branch"}}
    change(metadata(orders), refs=refs, current_snapshot_id=present)
    assert ids(orders) == []
    said = "the newest rows are in the branch audit, and lostack reads main"
    assert output_of(orders).why_missing() == said


def test_a_table_that_nobody_has_committed_to_is_named(orders: Path) -> None:
    """A job of Flink without checkpoints never commits."""
    change(metadata(orders), refs={}, current_snapshot_id=-1, snapshots=[])
    assert output_of(orders).rows() == []
    assert "nothing was committed" in output_of(orders).why_missing()


def test_a_table_whose_snapshots_are_not_mains_is_named(orders: Path) -> None:
    """They were staged, or the table was made anew."""
    change(metadata(orders), refs={}, current_snapshot_id=-1)
    assert "none of them is that of main" in output_of(orders).why_missing()


def test_what_main_has_is_read_whatever_other_branches_have(orders: Path) -> None:
    """A branch may be older, or newer, which is then named: what it has and main has not is
    missing.
    """
    made = snapshots(orders)
    refs = {
        "audit": {"snapshot-id": made[-1]["snapshot-id"], "type": "branch"},
        "first": {"snapshot-id": 7, "type": "tag"},
    }
    newer = "the newest rows are in the branch audit, and lostack reads main"
    for named, at, rows, why in ((refs, 0, 3, newer), (refs, -1, 7, ""), (None, 0, 3, "")):
        change(metadata(orders), refs=named, current_snapshot_id=made[at]["snapshot-id"])
        assert len(ids(orders)) == rows
        assert IcebergTable(orders).why_missing() == why


def test_the_table_of_another_catalog_is_refused(orders: Path) -> None:
    """Only its catalog knows which metadata file is the table's."""
    for version in range(1, 7):
        file = metadata(orders, version)
        file.rename(file.with_name(f"{version:05}-7f0c.metadata.json"))
    assert IcebergTable(orders).version() == -1
    with pytest.raises(TableError, match="no Iceberg table of a Hadoop catalog"):
        ids(orders)


def test_as_an_output_every_row_is_a_result(orders: Path) -> None:
    """Its columns are joined."""
    results = output_of(orders)
    assert results.rows()[-1] == "o5 0"
    whole = results.size()
    shutil.rmtree(orders)
    assert results.size() != whole
    with pytest.raises(OutputError, match="no Iceberg table"):
        results.rows()


def test_only_a_version_with_other_files_changes_an_output(orders: Path) -> None:
    """Flink's sink commits an empty version now and then while nothing arrives."""
    results = output_of(orders)
    whole = results.size()
    shutil.copy(metadata(orders), metadata(orders, 7))
    assert results.size() == whole
    shutil.copy(metadata(orders), metadata(orders, 8))
    change(metadata(orders, 8), current_snapshot_id=snapshots(orders)[0]["snapshot-id"])
    assert results.size() != whole


def test_a_version_that_cannot_be_read_is_a_change(orders: Path) -> None:
    """Who reads it is told why; a table in which each version is refused is not at rest while there
    are new ones.
    """
    results = output_of(orders)
    seen = [results.size()]
    for version in (7, 8):
        metadata(orders, version).write_bytes(metadata(orders).read_bytes()[:-9])
        seen.append(results.size())
        assert results.size() == seen[-1]
        with pytest.raises(OutputError, match="cannot be read"):
            results.rows()
    assert len(set(seen)) == 3
    shutil.copy(metadata(orders), metadata(orders, 9))
    assert results.size() == seen[0]


def test_a_table_that_is_made_again_is_another_one(orders: Path) -> None:
    """It may have as many versions as the one that was dropped."""
    results = output_of(orders)
    whole = results.size()
    first = metadata(orders, 1).read_text()
    for version in range(1, 7):
        metadata(orders, version).unlink()
    for version in range(1, 7):
        metadata(orders, version).write_text(first)
    assert results.size() != whole


def test_other_columns_are_a_change(orders: Path) -> None:
    """A column that is dropped changes the rows, and no file."""
    results = output_of(orders)
    whole = results.size()
    shutil.copy(metadata(orders), metadata(orders, 7))
    change(metadata(orders, 7), current_schema_id=1)
    assert results.size() != whole
