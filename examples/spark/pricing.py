"""Prices every order, from topic to topic, with PySpark Structured Streaming. Knows nothing of
lostack.
"""

import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, concat, length, lit

spark = SparkSession.builder.master("local[2]").appName("pricing").getOrCreate()
broker = os.environ["BOOTSTRAP_SERVERS"]
orders = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", broker)
    .option("subscribe", "orders")
    .option("startingOffsets", "earliest")
    .load()
)
order = col("value").cast("string")
priced = orders.select(
    "key", concat(lit('{"price": '), length(order), lit(', "of": '), order, lit("}")).alias("value")
)
query = (
    priced.writeStream.format("kafka")
    .option("kafka.bootstrap.servers", broker)
    .option("topic", "priced")
    .option("checkpointLocation", sys.argv[1])
    .start()
)
print("pricing since batch", query.lastProgress, flush=True)
query.awaitTermination()
