"""The mistake: each start has a new checkpoint, and with it a new id of the query, under which the
table has no batch: all orders are booked again.
"""

import os
import sys
import tempfile

from pyspark.sql import SparkSession
from pyspark.sql.functions import col

WAREHOUSE, FOLDER = sys.argv[1:]
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
    .option("checkpointLocation", tempfile.mkdtemp(dir=FOLDER))
    .toTable(TABLE)
)
print("booking since batch", query.lastProgress, flush=True)
query.awaitTermination()
