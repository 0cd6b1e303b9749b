"""The tables (Delta) into which a streaming query writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from harness.stages.queries import STREAM_TO_DELTA, TABLE_FOLDERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class QueryTable(Protocol):
    """A table of one cell."""

    def append(self, rows: DataFrame, number: int, application: str | None) -> None:
        """Append a batch; with an application's id and the batch's number, unless the table has a
        batch of that number.
        """

    def by_own_sink(self, rows: DataFrame) -> DataStreamWriter:
        """Return the writer of a query by the table's own sink, not started."""

    def rows(self) -> DataFrame | None:
        """Return what the table has; ``None`` if there is no table yet."""


class DeltaTable:
    """A Delta table. Implements :class:`QueryTable`."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder / TABLE_FOLDERS[STREAM_TO_DELTA]

    def append(self, rows: DataFrame, number: int, application: str | None) -> None:
        """Append a batch."""
        writer = rows.write.format("delta").mode("append")
        if application is not None:
            writer = writer.option("txnAppId", application).option("txnVersion", number)
        writer.save(str(self._folder))

    def by_own_sink(self, rows: DataFrame) -> DataStreamWriter:
        """Return the writer of a query."""
        return rows.writeStream.format("delta").option("path", str(self._folder))

    def rows(self) -> DataFrame | None:
        """Return what the table has."""
        if not self._folder.exists():
            return None
        return self._spark.read.format("delta").load(str(self._folder))


TABLES: Final[Mapping[str, Callable[[SparkSession, Path], QueryTable]]] = {
    STREAM_TO_DELTA.name: DeltaTable,
}
"""Name of a pipeline → its table."""
