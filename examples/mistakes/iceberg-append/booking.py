"""The mistake: the batch is appended by ``foreachBatch``, where Iceberg knows neither the query nor
the batch, so a batch that runs again is appended again.
"""

import os
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

WAREHOUSE, CHECKPOINT = sys.argv[1:]
TABLE = "lake.shop.booked"
spark = (
    SparkSession.builder.master("local[2]")
    .appName("booking")
    .config("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
    .config("spark.sql.catalog.lake.type", "hadoop")
    .config("spark.sql.catalog.lake.warehouse", WAREHOUSE)
    .getOrCreate()
)
spark.sql(f"CREATE TABLE IF NOT EXISTS {TABLE} (booked STRING) USING iceberg")
orders = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", os.environ["BOOTSTRAP_SERVERS"])
    .option("subscribe", "orders")
    .option("startingOffsets", "earliest")
    .load()
)


def book(batch: DataFrame, _: int) -> None:
    """Append the batch."""
    batch.writeTo(TABLE).append()


query = (
    orders.select(col("value").cast("string").alias("booked"))
    .writeStream.foreachBatch(book)
    .option("checkpointLocation", CHECKPOINT)
    .start()
)
print("booking since batch", query.lastProgress, flush=True)
query.awaitTermination()
