"""A program that uses everything of Spark that lostack uses, so that the class-data archive holds
its classes.

    python spark_exercise.py <a folder to work in>

It needs only PySpark. It runs a small batch (Parquet, JSON lines, groupBy, bitmaps, applyInPandas)
and streaming queries with a checkpoint, as an audit and a cell do. It lets Kafka's clients connect
to a port where no broker listens, and loads by name the classes that they would need to read a
broker's answers.
"""

from __future__ import annotations

import os
import re
import sys
import time
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

ROWS = 1000
AS_IN_A_CELL = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
NOBODY = {
    "kafka.bootstrap.servers": "127.0.0.1:1",
    "kafka.request.timeout.ms": "300",
    "kafka.default.api.timeout.ms": "300",
}
ENDED_WITHIN_S = 60
CONNECTOR = ("spark-sql-kafka-", "spark-token-provider-kafka-", "kafka-clients-", "commons-pool2-")
SPOKEN = re.compile(
    r"org/apache/(spark/.*|commons/pool2/\w|commons/pool2/impl/.*|kafka/clients/(?!.*(Share|Streams|Group|Acl|Quota|Token|Mock)).*|kafka/common/(?!message/|security/|telemetry/|errors/)(?!.*(Share|Streams|Acl|Quota|Token|Raft|Vote|Scram)).*|kafka/common/message/(ApiVersions|Metadata|Fetch|ListOffsets|Produce|InitProducerId|DescribeTopicPart|DescribeCluster|RequestHeader|ResponseHeader|LeaderAndIsr)(Request|Response|Data).*)\.class"
)
"""The names of the classes in these jars that a query on Kafka uses: those of the protocol's
requests, and of the clients.
"""


def main(folder: Path) -> None:
    """Exercise the JVM at the other end of the gateway."""
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("exercise")
        .config("spark.sql.shuffle.partitions", "2")
    )
    spark = builder.getOrCreate()
    batch(spark, folder)
    stream(spark, folder)
    for name, value in AS_IN_A_CELL.items():
        spark.conf.set(name, value)
    stateful(spark, folder)
    files(spark, folder)
    micro_batches(spark, folder)
    clients(spark)
    load(spark)
    spark.stop()


def batch(spark: SparkSession, folder: Path) -> None:
    """Write, read, aggregate."""
    numbers = spark.range(ROWS).withColumn("key", (f.col("id") % 3).cast("string"))
    numbers.write.parquet(str(folder / "numbers"))
    table = spark.read.parquet(str(folder / "numbers"))
    buckets = table.select(
        "key",
        f.bitmap_bucket_number("id").alias("bucket"),
        f.bitmap_bit_position("id").alias("bit"),
    )
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
    query = (
        writer.option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    if not query.awaitTermination(ENDED_WITHIN_S):
        sys.exit("the streaming query did not end")
    spark.createDataFrame([("kafka",)], ["value"]).write.format("noop").mode("append").save()
    spark._jvm.java.lang.Class.forName("org.apache.spark.sql.kafka010.KafkaSourceProvider")  # type: ignore[union-attr]  # noqa: SLF001


def stateful(spark: SparkSession, folder: Path) -> None:
    """Run one batch of a stateful query in update mode, with a function as its sink."""
    lines = spark.readStream.schema("id long, key string").json(str(folder / "lines"))
    kept = lines.groupBy("key").agg(f.collect_list(f.struct("id", "key")).alias("copies"))

    def take(rows: DataFrame, _: int) -> None:
        rows.collect()

    run(kept.writeStream.outputMode("update").foreachBatch(take), folder / "checkpoint-state")


def files(spark: SparkSession, folder: Path) -> None:
    """Run one batch of a query that writes files."""
    lines = spark.readStream.schema("id long, key string").json(str(folder / "lines"))
    run(
        lines.writeStream.format("parquet").option("path", str(folder / "files")),
        folder / "checkpoint-files",
    )


def micro_batches(spark: SparkSession, folder: Path) -> None:
    """Run batches of a source with the newer interface, which Kafka's also has. Each is passed to a
    function; then resume.
    """
    source = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=5, numPartitions=3)

    def take(rows: DataFrame, _: int) -> None:
        rows.collect()

    for _ in range(2):
        query = (
            source.load()
            .writeStream.foreachBatch(take)
            .option("checkpointLocation", str(folder / "checkpoint-rate"))
            .start()
        )
        begun = time.monotonic()
        while (
            query.lastProgress is None
            and query.isActive
            and time.monotonic() - begun < ENDED_WITHIN_S
        ):
            query.awaitTermination(1)
        query.stop()


def load(spark: SparkSession) -> None:
    """Load the classes of the connector and its clients that are otherwise loaded only when a
    broker answers.
    """
    java = spark._jvm.java.lang  # type: ignore[union-attr]  # noqa: SLF001 - PySpark's own way in
    loader = java.Thread.currentThread().getContextClassLoader()
    for jar in java.System.getProperty("java.class.path").split(os.pathsep):
        if Path(jar).name.startswith(CONNECTOR):
            with zipfile.ZipFile(jar) as classes:
                names = [
                    name.removesuffix(".class").replace("/", ".")
                    for name in classes.namelist()
                    if SPOKEN.match(name)
                ]
            for name in names:
                with suppress(Py4JJavaError):  # one that needs what is not there
                    java.Class.forName(name, False, loader)  # noqa: FBT003 - of Java


def run(writer: DataStreamWriter, checkpoint: Path) -> None:
    """Run a query over all available data, and wait for its end."""
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    if not query.awaitTermination(ENDED_WITHIN_S):
        sys.exit("a streaming query did not end")


def clients(spark: SparkSession) -> None:
    """Load the classes of Kafka's clients by letting them connect to a port where no broker
    answers, until they give up.
    """
    with suppress(PySparkException, Py4JJavaError):
        spark.read.format("kafka").options(**NOBODY, subscribe="nothing").load().collect()
    with suppress(PySparkException, Py4JJavaError):
        row = spark.createDataFrame([("k", "v")], ["key", "value"])
        row.write.format("kafka").options(
            **NOBODY, **{"kafka.max.block.ms": "300"}, topic="nothing"
        ).save()
    jvm = spark._jvm  # noqa: SLF001 - PySpark's own way in
    plain = {name.removeprefix("kafka."): value for name, value in NOBODY.items()}
    bytes_of = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
    settings = plain | {"key.deserializer": bytes_of, "value.deserializer": bytes_of}
    consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings)  # type: ignore[union-attr]
    with suppress(Py4JJavaError):
        consumer.partitionsFor("nothing")
    consumer.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
