"""Books every order into an Iceberg table, with PySpark Structured Streaming and the table's own
sink. Knows nothing of lostack.

The sink writes the query's id and the batch's number into each snapshot of the table. A batch that
runs again after a crash is found there, and left out.
"""

import os
import sys

from pyspark.sql import SparkSession
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
query = (
    orders.select(col("value").cast("string").alias("booked"))
    .writeStream.format("iceberg")
    .outputMode("append")
    .option("checkpointLocation", CHECKPOINT)
    .toTable(TABLE)
)
print("booking since batch", query.lastProgress, flush=True)
query.awaitTermination()
