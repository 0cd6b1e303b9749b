"""The mistake: nothing tells the table that a batch which runs again is the same, so it is appended
again.
"""

import os
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

TABLE, CHECKPOINT = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]")
    .appName("booking")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .getOrCreate()
)
orders = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", os.environ["BOOTSTRAP_SERVERS"])
    .option("subscribe", "orders")
    .option("startingOffsets", "earliest")
    .load()
)


def book(batch: DataFrame, _: int) -> None:
    """Append the batch."""
    batch.write.format("delta").mode("append").save(TABLE)


query = (
    orders.select(col("value").cast("string").alias("booked"))
    .writeStream.foreachBatch(book)
    .option("checkpointLocation", CHECKPOINT)
    .start()
)
print("booking since batch", query.lastProgress, flush=True)
query.awaitTermination()
