"""Every value of a Parquet file is read, or the file is refused in a sentence: as an output of its
own, and below a Delta or an Iceberg table.
"""

from __future__ import annotations

import json
import shutil
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.pipelines.outputs import Output, OutputKind
from harness.systems.declared.outputs import OutputError, results_of

if TYPE_CHECKING:
    from collections.abc import Sequence

ICEBERG = Path(__file__).parent / "written" / "iceberg" / "orders"
"""A table with the columns 1, ``id``, and 2, ``total``."""
YEAR_10000 = 253_402_300_800_000_000
"""In microseconds, as a timestamp has it."""
INFINITY = 9_223_371_331_200_000_000
"""``infinity`` of PostgreSQL, as its connectors write it."""
DAY = datetime(2026, 1, 2, 3, 4, 5)  # noqa: DTZ001


def rows_of(folder: Path, kind: OutputKind, values: pa.Array) -> Sequence[str]:
    """Return the rows of an output whose data files have one row for each value."""
    fields = [
        pa.field(name, of, metadata={"PARQUET:field_id": str(number)})
        for number, (name, of) in enumerate([("id", pa.string()), ("total", values.type)], start=1)
    ]
    ids = [f"o{number}" for number in range(len(values))]
    written = pa.table([pa.array(ids), values], schema=pa.schema(fields))
    at = folder / "orders"
    if kind is OutputKind.ICEBERG:
        shutil.copytree(ICEBERG, at)
        for version in range(3, 7):
            (at / f"metadata/v{version}.metadata.json").unlink()  # to its first append
    else:
        (at / "_delta_log").mkdir(parents=True)
        schema = json.dumps({"fields": [{"name": "id"}, {"name": "total"}]})
        add = {"path": "0.parquet", "partitionValues": {}}
        actions = [{"metaData": {"schemaString": schema}}, {"add": add}]
        entry = at / "_delta_log" / f"{0:020}.json"
        entry.write_text("\n".join(json.dumps(each) for each in actions))
    for file in [*at.glob("data/*.parquet")] or [at / "0.parquet"]:
        pq.write_table(written, file)
    path = str(at / "*.parquet") if kind is OutputKind.PARQUET else str(at)
    return results_of(Output(kind=kind, file=path), {}, folder, folder / "log").rows()


KINDS = (OutputKind.PARQUET, OutputKind.DELTA, OutputKind.ICEBERG)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("far", "told"),
    [
        (pa.array([YEAR_10000], pa.timestamp("us")), "10000-01-01 00:00:00.000000"),
        (pa.array([YEAR_10000], pa.timestamp("us", "UTC")), "10000-01-01 00:00:00.000000Z"),
        (pa.array([INFINITY], pa.timestamp("us")), f"<value out of range: {INFINITY}>"),
        (pa.array([10**8], pa.int32()).cast(pa.date32()), "<value out of range: 100000000>"),
    ],
)
def test_a_date_that_python_does_not_reach_is_text(
    tmp_path: Path, kind: OutputKind, far: pa.Array, told: str
) -> None:
    """The others stay as they are."""
    near = pa.array([DAY]).cast(far.type)
    values = pa.concat_arrays([far, near, pa.nulls(1, far.type)])
    assert rows_of(tmp_path, kind, values) == [f"o0 {told}", f"o1 {near[0]}", "o2 None"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            pa.array([{"of": YEAR_10000}], pa.struct([("of", pa.timestamp("us"))])),
            "date value out of range",
        ),
        (pa.array([b"\xff"]).view(pa.string()), "'utf-8' codec can't decode byte 0xff"),
    ],
)
def test_a_value_that_cannot_be_read_is_told_in_a_sentence(
    tmp_path: Path, kind: OutputKind, values: pa.Array, said: str
) -> None:
    """No row of the file is told, neither as there nor as lost."""
    with pytest.raises(OutputError, match=f"has the file .*parquet, which cannot be read: {said}"):
        rows_of(tmp_path, kind, values)
