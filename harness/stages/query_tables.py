"""The tables (Delta, Iceberg) into which a streaming query writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from harness.stages.queries import STREAM_TO_DELTA, STREAM_TO_ICEBERG, TABLE_FOLDERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class QueryTable(Protocol):
    """A table of one cell."""

    def append(self, rows: DataFrame, number: int, application: str | None) -> None:
        """Append a batch; with an application's id and the batch's number, unless the table has a
        batch of that number.
        """

    def by_own_sink(self, rows: DataFrame) -> DataStreamWriter:
        """Return the writer of a query by the table's own sink, not started."""

    def start(self, writer: DataStreamWriter) -> StreamingQuery:
        """Start a query by the table's own sink."""

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

    def start(self, writer: DataStreamWriter) -> StreamingQuery:
        """Start a query."""
        return writer.start()

    def rows(self) -> DataFrame | None:
        """Return what the table has."""
        if not self._folder.exists():
            return None
        return self._spark.read.format("delta").load(str(self._folder))


class IcebergTable:
    """An Iceberg table in a Hadoop catalog of its own. Implements :class:`QueryTable`."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        namespace, _, name = TABLE_FOLDERS[STREAM_TO_ICEBERG].partition("/")
        self._name = f"cell.{namespace}.{name}"
        conf = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop"}
        for setting, value in {**conf, ".warehouse": str(folder)}.items():
            spark.conf.set(f"spark.sql.catalog.cell{setting}", value)
        spark.sql(
            f"CREATE TABLE IF NOT EXISTS {self._name} (key BINARY, value BINARY, origin STRING) "
            "USING iceberg"
        )

    def append(self, rows: DataFrame, number: int, application: str | None) -> None:
        """Append a batch.

        Raises:
            ValueError: there is an application: Iceberg has no such id outside of its own sink.
        """
        if application is not None:
            raise ValueError(f"batch {number}: a table of Iceberg knows no application")
        rows.writeTo(self._name).append()

    def by_own_sink(self, rows: DataFrame) -> DataStreamWriter:
        """Return the writer of a query."""
        writer = rows.writeStream.format("iceberg").outputMode("append")
        return writer.option("fanout-enabled", "true")

    def start(self, writer: DataStreamWriter) -> StreamingQuery:
        """Start a query: by the table's name, which the query's own session knows. An option
        ``path`` would be looked up in the JVM's active session, which may be another one.
        """
        return writer.toTable(self._name)

    def rows(self) -> DataFrame | None:
        """Return what the table has."""
        return self._spark.table(self._name)


TABLES: Final[Mapping[str, Callable[[SparkSession, Path], QueryTable]]] = {
    STREAM_TO_DELTA.name: DeltaTable,
    STREAM_TO_ICEBERG.name: IcebergTable,
}
"""Name of a pipeline → its table."""
