"""The mistake: each start has a new checkpoint, so its batches count from 0 again. The table knows
these numbers under the application's id, and leaves the batches out.
"""

import os
import sys
import tempfile

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

TABLE, FOLDER = sys.argv[1:]
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


def book(batch: DataFrame, number: int) -> None:
    """Append the batch, unless the table has the batch of this number."""
    (
        batch.write.format("delta")
        .mode("append")
        .option("txnAppId", "booking")
        .option("txnVersion", number)
        .save(TABLE)
    )


query = (
    orders.select(col("value").cast("string").alias("booked"))
    .writeStream.foreachBatch(book)
    .option("checkpointLocation", tempfile.mkdtemp(dir=FOLDER))
    .start()
)
print("booking since batch", query.lastProgress, flush=True)
query.awaitTermination()
