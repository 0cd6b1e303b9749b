"""Books every order into a table of PostgreSQL by JDBC, with PySpark Structured Streaming:
``booking.py DATABASE CHECKPOINT``. Knows nothing of lostack.

A batch that runs again after a crash appends its rows once more. With ``--replace`` what a batch of
the same number has left is deleted first.
"""

import os
import sys

import psycopg
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit

DATABASE, CHECKPOINT, *WORDS = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").appName("booking").getOrCreate()
orders = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", os.environ["BOOTSTRAP_SERVERS"])
    .option("subscribe", "orders")
    .option("startingOffsets", "earliest")
    .load()
)


def book(batch: DataFrame, number: int) -> None:
    """Append the batch."""
    if "--replace" in WORDS:
        with psycopg.connect(DATABASE) as database:
            database.execute("DELETE FROM booked WHERE batch = %s", [number])
    (
        batch.withColumn("batch", lit(number))
        .write.format("jdbc")
        .mode("append")
        .option("url", f"jdbc:{DATABASE}")
        .option("user", "shop")
        .option("driver", "org.postgresql.Driver")
        .option("dbtable", "booked")
        .save()
    )


query = (
    orders.select(col("value").cast("string").alias("booked"))
    .writeStream.foreachBatch(book)
    .option("checkpointLocation", CHECKPOINT)
    .start()
)
print("booking since batch", query.lastProgress, flush=True)
query.awaitTermination()
