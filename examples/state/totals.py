"""Adds up what each customer has paid, with PySpark Structured Streaming: each total is a state of
`transformWithState`, kept by RocksDB beside the checkpoint. Knows nothing of lostack.
"""

import os
import sys
from collections.abc import Iterator

from pyspark.sql import Row, SparkSession
from pyspark.sql.functions import col, from_json
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

PAYMENT = "payment STRING, customer STRING, cents LONG"


class Total(StatefulProcessor):
    """What a customer has paid so far."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Find the state."""
        self.total = handle.getValueState("total", "cents LONG")

    def handleInputRows(
        self,
        key: tuple[str],
        rows: Iterator[Row],
        timerValues: object,  # noqa: ARG002, N803
    ) -> Iterator[Row]:
        """Add the payments of a batch; say the new total."""
        held = self.total.get()
        cents = (held[0] if held else 0) + sum(row.cents for row in rows)
        self.total.update((cents,))
        yield Row(key=key[0], value=f"{key[0]} {cents}")

    def close(self) -> None:
        """Nothing is open."""


spark = SparkSession.builder.master("local[2]").appName("totals").getOrCreate()
broker = os.environ["BOOTSTRAP_SERVERS"]
payments = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", broker)
    .option("subscribe", "payments")
    .option("startingOffsets", "earliest")
    .load()
)
totals = (
    payments.select(from_json(col("value").cast("string"), PAYMENT).alias("paid"))
    .select("paid.*")
    .groupBy("customer")
    .transformWithState(
        statefulProcessor=Total(),
        outputStructType="key STRING, value STRING",
        outputMode="Update",
        timeMode="None",
    )
)
query = (
    totals.writeStream.format("kafka")
    .option("kafka.bootstrap.servers", broker)
    .option("topic", "totals")
    .option("checkpointLocation", sys.argv[1])
    .outputMode("update")
    .start()
)
print("adding up since batch", query.lastProgress, flush=True)
query.awaitTermination()
