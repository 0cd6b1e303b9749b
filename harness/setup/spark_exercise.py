"""Uses of Spark what we use, so that a class-data archive holds its classes. A program of its own; PySpark only.

    python spark_exercise.py <a folder to work in>

It runs a small batch (Parquet, JSON lines, groupBy, bitmaps, applyInPandas) and a streaming query with a checkpoint.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

ROWS = 1000
ENDED_WITHIN_S = 60


def main(folder: Path) -> None:
    """Exercise the JVM at the other end of the gateway."""
    builder = SparkSession.builder.master("local[2]").appName("exercise").config("spark.sql.shuffle.partitions", "2")
    spark = builder.getOrCreate()
    batch(spark, folder)
    stream(spark, folder)
    spark.stop()


def batch(spark: SparkSession, folder: Path) -> None:
    """Write, read, aggregate."""
    numbers = spark.range(ROWS).withColumn("key", (f.col("id") % 3).cast("string"))
    numbers.write.parquet(str(folder / "numbers"))
    table = spark.read.parquet(str(folder / "numbers"))
    buckets = table.select("key", f.bitmap_bucket_number("id").alias("bucket"), f.bitmap_bit_position("id").alias("bit"))
    bitmaps = buckets.groupBy("key", "bucket").agg(f.bitmap_construct_agg("bit").alias("bitmap"))
    bitmaps.select(f.sum(f.bitmap_count("bitmap"))).collect()

    def same(frame: pd.DataFrame) -> pd.DataFrame:
        return frame

    table.groupBy("key").applyInPandas(same, table.schema).write.json(str(folder / "lines"))
    table.join(spark.read.json(str(folder / "lines")), "id", "left").orderBy("id").toPandas()


def stream(spark: SparkSession, folder: Path) -> None:
    """Run one batch of a query with state and a checkpoint."""
    lines = spark.readStream.schema("id long, key string").json(str(folder / "lines"))
    counted = lines.groupBy("key").count()

    def keep(rows: DataFrame, batch_id: int) -> None:
        rows.write.mode("append").parquet(str(folder / "out" / str(batch_id)))

    writer = counted.writeStream.outputMode("complete").foreachBatch(keep)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    if not query.awaitTermination(ENDED_WITHIN_S):
        sys.exit("the streaming query did not end")
    spark.createDataFrame([("kafka",)], ["value"]).write.format("noop").mode("append").save()
    spark._jvm.java.lang.Class.forName("org.apache.spark.sql.kafka010.KafkaSourceProvider")  # type: ignore[union-attr]  # noqa: SLF001


if __name__ == "__main__":
    main(Path(sys.argv[1]))
