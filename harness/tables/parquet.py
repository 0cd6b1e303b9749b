"""Read the rows of a Parquet file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.tables.errors import TableError

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa


def read_rows(file: Path, whose: str) -> tuple[pa.Schema, list[dict[str, Any]]]:
    """Return the schema of a Parquet file, and its rows as Python values by the names of their
    columns. A date that Python does not reach (before year 1, beyond 9999) is text. ``whose``: what
    has the file, the subject of the message.

    Raises:
        TableError: the file is missing or damaged, or has a value that cannot be read.
    """
    import pyarrow as pa  # noqa: PLC0415 - heavy, and an extra
    from pyarrow import parquet  # noqa: PLC0415

    try:
        table = parquet.ParquetFile(file).read()
        columns = [_values_of(column) for column in table.columns]
    except (OSError, pa.ArrowException, OverflowError, ValueError) as error:
        raise TableError(f"{whose} has the file {file}, which cannot be read: {error}") from error
    names = table.column_names
    return table.schema, [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _values_of(column: pa.ChunkedArray) -> list[Any]:
    values: list[Any]
    try:
        values = column.to_pylist()
    except (OverflowError, ValueError):
        values = [_value_of(scalar) for scalar in column]
    return values


def _value_of(scalar: pa.Scalar) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        if not pa.types.is_temporal(scalar.type):
            raise
        return scalar.cast(pa.string()).as_py()
