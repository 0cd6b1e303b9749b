"""Adds up what each customer has paid, with PySpark Structured Streaming. Each total is in the
driver's memory: a driver that starts again goes on behind the checkpoint, and begins at zero.
Knows nothing of lostack.
"""

import os
import sys
from collections import Counter

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json

PAYMENT = "payment STRING, customer STRING, cents LONG"
spark = SparkSession.builder.master("local[2]").appName("totals").getOrCreate()
broker = os.environ["BOOTSTRAP_SERVERS"]
payments = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", broker)
    .option("subscribe", "payments")
    .option("startingOffsets", "earliest")
    .load()
)
total = Counter[str]()


def add_up(batch: DataFrame, _number: int) -> None:
    """Add the payments of a batch; say the new totals."""
    paid = batch.groupBy("customer").sum("cents").collect()
    total.update(dict(paid))
    if paid:
        said = [(customer, f"{customer} {total[customer]}") for customer, _ in paid]
        (
            spark.createDataFrame(said, "key STRING, value STRING")
            .write.format("kafka")
            .option("kafka.bootstrap.servers", broker)
            .option("topic", "totals")
            .save()
        )


query = (
    payments.select(from_json(col("value").cast("string"), PAYMENT).alias("paid"))
    .select("paid.*")
    .writeStream.foreachBatch(add_up)
    .option("checkpointLocation", sys.argv[1])
    .start()
)
print("adding up since batch", query.lastProgress, flush=True)
query.awaitTermination()
