"""A program that writes into tables as cells do, so that the class-data archive of a Spark with a
table format holds its classes.

    python table_exercise.py <a folder to work in>

It needs only PySpark, with the session's extensions set.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

ENDED_WITHIN_S = 60
BATCHES = 2
ICEBERG = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop"}


def main(folder: Path) -> None:
    """Exercise the table format whose extensions the session has."""
    spark = SparkSession.builder.master("local[2]").appName("tables").getOrCreate()
    rows = spark.range(3).selectExpr("id", "cast(id as string) as key").coalesce(1)
    rows.write.json(str(folder / "table-lines"))
    lines = spark.readStream.schema("id long, key string").json(str(folder / "table-lines"))
    extensions = spark.conf.get("spark.sql.extensions", "") or ""
    (delta if "delta" in extensions else iceberg)(spark, folder, rows, lines)
    spark.stop()


def delta(spark: SparkSession, folder: Path, rows: DataFrame, lines: DataFrame) -> None:
    """Append with and without the number of a batch, and by the table's own sink; read."""
    table, own = str(folder / "table"), str(folder / "own-table")
    for number in range(BATCHES):
        rows.write.format("delta").mode("append").save(table)
        told = rows.write.format("delta").mode("append").option("txnAppId", "exercise")
        told.option("txnVersion", number).save(table)
    spark.read.format("delta").load(table).collect()
    run(lines.writeStream.format("delta").option("path", own), folder)


def iceberg(spark: SparkSession, folder: Path, rows: DataFrame, lines: DataFrame) -> None:
    """Append, also by the table's own sink; read."""
    for name, value in {**ICEBERG, ".warehouse": str(folder / "warehouse")}.items():
        spark.conf.set(f"spark.sql.catalog.cell{name}", value)
    spark.sql("CREATE TABLE cell.a.b (id BIGINT, key STRING) USING iceberg")
    for _ in range(BATCHES):
        rows.writeTo("cell.a.b").append()
    spark.table("cell.a.b").collect()
    writer = lines.writeStream.format("iceberg").outputMode("append")
    run(writer.option("fanout-enabled", "true").option("path", "cell.a.b"), folder)


def run(writer: DataStreamWriter, folder: Path) -> None:
    """Run a query over all available data, and wait for its end."""
    writer = writer.option("checkpointLocation", str(folder / "table-checkpoint"))
    query = writer.trigger(availableNow=True).start()
    if not query.awaitTermination(ENDED_WITHIN_S):
        sys.exit("a streaming query did not end")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
