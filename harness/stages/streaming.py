"""The streaming stage: topic → map → database, table, files or topic, by Spark.

PySpark connects to the driver JVM of the harness (``PYSPARK_GATEWAY_PORT``). Only ``foreachBatch``
runs in this process; everything else, including the other sinks, runs in the JVM.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from harness.failpoint import VARIABLE, failpoint
from harness.model import kinds
from harness.model.record import ATTEMPT_HEADER, ORIGIN_HEADER, decode_id
from harness.model.waiting import wait_until
from harness.model.writing import SUFFIX
from harness.stages.consumer_settings import SavePosition
from harness.stages.queries import (
    BY_FOREACH_BATCH,
    STREAM_TO_DATABASE,
    STREAM_TO_FILES,
    STREAM_TO_POSTGRES,
    STREAM_TO_STATE,
)
from harness.stages.query_tables import TABLES
from harness.stages.sinks.checkpoint import Checkpoint
from harness.stages.sinks.interface import Copy
from harness.stages.sinks.opening import open_sink
from harness.stages.stage import TURN, Stage, run_stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from harness.model.writing import LedgerWriter
    from harness.stages.query_tables import QueryTable
    from harness.stages.sinks.interface import Sink

TURN_S = 600.0
"""Longer than a cell lasts."""
TIMER_S = 0.2
"""How long after its end a query that reads what there is, is started again, in seconds."""
FETCH_WAIT_MS = "50"
"""How long a broker may hold a fetch that finds nothing, in milliseconds. Of a topic with
transactions a task fetches once behind its last record, and asks all else when that is answered.
"""
ORIGIN = "concat(partition, '.', -1, '.', offset)"
"""The expression that names the copy from which a result is made."""
UNKNOWN_EPOCH = -1
"""The leader epoch of every copy: unknown, because Spark does not report it."""


class Query:
    """The streaming query of the stage."""

    def __init__(self, stage: Stage, ledger: LedgerWriter, spark: SparkSession) -> None:
        self._stage = stage
        self._ledger = ledger
        self._spark = spark
        self._settings = stage.settings.consumer
        self._outside = self._settings.position is SavePosition.BEFORE_WORK
        self._folder = Path(stage.outbox).absolute().parent  # for the JVM, which stands elsewhere
        self._checkpoint = Checkpoint(self._folder / "checkpoint")
        self._begun: dict[int, int] = {}
        tables = TABLES.get(stage.pipeline)
        self._table = tables(spark, self._folder) if tables else None
        self._sink = (
            open_sink(stage.sink, name=stage.client_id)
            if self._outside or stage.pipeline in {each.name for each in BY_FOREACH_BATCH}
            else None
        )

    def start(self) -> StreamingQuery:
        """Start the query at its saved position."""
        begins = self._begun = self._begins()
        for partition, position in begins.items():
            self._ledger.write(kinds.RESUMED, where="query", partition=partition, position=position)
        rows = self._source(begins)
        if self._outside:  # the position is elsewhere: a checkpoint of its own for each driver
            self._checkpoint = Checkpoint(self._checkpoint.directory / self._stage.writer)
        self._tell_failpoints(_json(begins) if self._from_position else "")
        writer = self._to_sink(rows).option("checkpointLocation", str(self._checkpoint.directory))
        if self._settings.query.available_now:
            writer = writer.trigger(availableNow=True)
        query = self._table_of().start(writer) if self._settings.query.native else writer.start()
        self._ledger.write(kinds.READY, role="driver")
        return query

    @property
    def _from_position(self) -> bool:
        """Whether a query without a checkpoint is told where to begin."""
        return self._outside or self._settings.query.resumes_at_table

    def close(self) -> None:
        """Close the database, after the query has ended."""
        if self._sink is not None:
            self._sink.close()

    def _tell_failpoints(self, begins: str) -> None:
        """Tell the failpoints in the JVM which cell's query this is, by a file in its folder
        (``CheckpointFailpoints.java``).
        """
        marks = {
            "cell": self._stage.cell,
            "by": f"{self._stage.writer}-jvm",
            "history": str(
                Path(self._stage.history, f"{self._stage.writer}-jvm{SUFFIX}").absolute()
            ),
            "failpoints": str(Path(os.environ[VARIABLE]).absolute())
            if VARIABLE in os.environ
            else "",
            "begins": begins,
        }
        jvm = self._spark._jvm  # noqa: SLF001 - PySpark's own way in
        assert jvm is not None  # noqa: S101 - a session that runs has one
        for name, value in marks.items():
            jvm.System.setProperty(f"lostack.{name}:{self._folder}", value)

    def _begins(self) -> dict[int, int]:
        partitions = range(self._stage.settings.topic.partitions)
        kept = (
            self._sink.positions() if self._outside and self._sink else self._checkpoint.committed()
        )
        if not kept and self._settings.query.resumes_at_table:
            kept = self._ends_of_table()
        return {partition: kept.get(partition, 0) for partition in partitions}

    def _ends_of_table(self) -> dict[int, int]:
        """Return the position in each partition behind the last record that the table has."""
        ends: dict[int, int] = {}
        found = self._table.rows() if self._table is not None else None
        for row in found.collect() if found is not None else ():
            partition, _, offset = (int(word) for word in row.origin.split("."))
            ends[partition] = max(ends.get(partition, 0), offset + 1)
        return ends

    def _source(self, begins: dict[int, int]) -> DataFrame:
        start = (
            json.dumps({self._stage.topic_in: {str(p): o for p, o in begins.items()}})
            if self._from_position
            else "earliest"
        )
        options: dict[str, str | int] = {
            **_client(self._stage),
            "kafka.fetch.max.wait.ms": FETCH_WAIT_MS,
            "kafka.isolation.level": self._settings.isolation,
            **self._partitions(),
            "startingOffsets": start,
            "maxOffsetsPerTrigger": self._settings.unit,
            "includeHeaders": "true",
            "failOnDataLoss": str(self._settings.query.fail_on_loss).lower(),
        }
        return self._spark.readStream.format("kafka").options(**options).load()

    def _partitions(self) -> dict[str, str]:
        """Return the option that selects partitions: all that the topic has at each batch, or a
        fixed list.
        """
        topic = self._stage.topic_in
        if self._settings.query.assigned:
            return {
                "assign": json.dumps({topic: list(range(self._stage.settings.topic.partitions))})
            }
        return {"subscribe": topic}

    def _to_sink(self, rows: DataFrame) -> DataStreamWriter:
        match self._stage.pipeline:
            case STREAM_TO_DATABASE.name | STREAM_TO_POSTGRES.name:
                return rows.select("partition", "offset", "key", "value").writeStream.foreachBatch(
                    self._batch
                )
            case STREAM_TO_STATE.name:
                copies = f.collect_list(f.struct("partition", "offset", "key", "value")).alias(
                    "copies"
                )
                return (
                    rows.groupBy("key")
                    .agg(copies)
                    .writeStream.outputMode("update")
                    .foreachBatch(self._states)
                )
            case _ if self._table is not None and self._settings.query.native:
                return self._table.by_own_sink(
                    rows.selectExpr("key", "value", f"{ORIGIN} as origin")
                )
            case _ if self._table is not None:
                return rows.select("partition", "offset", "key", "value").writeStream.foreachBatch(
                    self._append
                )
            case STREAM_TO_FILES.name:
                out = rows.selectExpr("key", "value", f"{ORIGIN} as origin")
                return out.writeStream.format("parquet").option("path", str(self._folder / "files"))
            case _:
                attempt = f"concat('{self._stage.writer}.', partition, '.', offset)"
                headers = ", ".join(
                    f"struct('{name}' as key, cast({value} as binary) as value)"
                    for name, value in ((ORIGIN_HEADER, ORIGIN), (ATTEMPT_HEADER, attempt))
                )
                out = rows.selectExpr("key", "value", f"array({headers}) as headers")
                return out.writeStream.format("kafka").options(
                    **_client(self._stage), **_gathers(self._stage), topic=self._stage.topic_out
                )

    # --- foreachBatch -----------------------------------------------------------------------------

    def _batch(self, frame: DataFrame, number: int) -> None:
        rows = sorted(frame.collect(), key=_place)
        self._take(rows)
        if self._settings.query.per_batch:
            self._record_together(rows, number)
        else:
            self._record_each(rows)

    def _append(self, frame: DataFrame, number: int) -> None:
        """Append the batch to the table; with an application id and the batch's number, if the
        table is to leave out a batch that it has.
        """
        rows = sorted(frame.collect(), key=_place)
        self._take(rows)
        out = frame.selectExpr("key", "value", f"{ORIGIN} as origin").coalesce(1)
        application = None
        if self._settings.idempotent:
            own = f".{self._stage.incarnation}" if self._settings.query.new_application else ""
            application = f"{self._stage.group}{own}"
        self._table_of().append(out, number, application)

    def _states(self, frame: DataFrame, number: int) -> None:
        """Record the state of each key in the batch: every copy that the key ever had, including
        those of this batch.

        The engine's offset log shows which copies are of this batch. A sink that replaces results
        gets the whole state; a sink that appends gets only the new copies.
        """
        since = (
            self._checkpoint.ends(number - 1) if number else self._begun if self._outside else {}
        )
        states = sorted(
            (_text(row.key) or "", sorted(row.copies, key=_place)) for row in frame.collect()
        )
        news = sorted(
            (
                row
                for _, rows in states
                for row in rows
                if row.offset >= since.get(row.partition, 0)
            ),
            key=_place,
        )
        self._take(news)
        for key, rows in states:
            self._ledger.write(
                kinds.STATE,
                batch=number,
                key=key,
                records=[decode_id(bytes(row.value)) for row in rows],
                news=[decode_id(bytes(row.value)) for row in rows if row in news],
            )
        if self._settings.idempotent:
            self._replace(states)
        else:
            self._record_each(news)

    def _take(self, rows: list[Row]) -> None:
        """Write deliveries into the ledger. If the position is kept outside the checkpoint, save it
        first.
        """
        for row in rows:
            self._ledger.write(
                kinds.DELIVERED,
                record=decode_id(bytes(row.value)),
                partition=row.partition,
                epoch=UNKNOWN_EPOCH,
                offset=row.offset,
            )
        if self._outside and self._sink:
            self._sink.begin()
            for row in rows:
                self._sink.save_position(row.partition, row.offset + 1)
            self._sink.commit()
            for row in rows:
                self._ledger.write(
                    kinds.SAVED, partition=row.partition, offset=row.offset + 1, error=None
                )
        _pass("before-processing", rows)

    def _record_each(self, rows: list[Row]) -> None:
        """Record row by row, as an append does: recorded rows stay, even if the batch
        fails later.
        """
        sink = self._database()
        for row in rows:
            record = decode_id(bytes(row.value))
            failpoint("before-recording", record)
            sink.begin()
            if not (self._settings.idempotent and record and sink.absorb(record, _copy(row))):
                sink.record(bytes(row.value), _text(row.key), _copy(row))
            sink.commit()
            failpoint("after-recording", record)

    def _replace(self, states: list[tuple[str, list[Row]]]) -> None:
        """Replace each key's earlier state, key by key."""
        sink = self._database()
        for key, rows in states:
            _pass("before-recording", rows)
            sink.begin()
            sink.forget_key(key)
            for row in rows:
                sink.record(bytes(row.value), key, _copy(row))
            sink.commit()
            _pass("after-recording", rows)

    def _record_together(self, rows: list[Row], number: int) -> None:
        """Record the whole batch and its number in one transaction, unless the batch is recorded
        already.
        """
        sink = self._database()
        sink.begin()
        known = sink.absorb_batch(self._stage.group, number)
        for row in rows:
            record = decode_id(bytes(row.value))
            failpoint("before-recording", record)
            if known:
                sink.absorb_copy(record or "", _copy(row))
            else:
                sink.record(bytes(row.value), _text(row.key), _copy(row))
        sink.commit()
        _pass("after-recording", rows)

    def _table_of(self) -> QueryTable:
        if self._table is None:
            raise RuntimeError("this pipeline has no table")
        return self._table

    def _database(self) -> Sink:
        if self._sink is None:
            raise RuntimeError("this pipeline has no database")
        return self._sink


def _client(stage: Stage) -> dict[str, str]:
    """Return the settings of the Kafka client in the JVM, for source and sink."""
    return {
        "kafka.bootstrap.servers": stage.bootstrap,
        "kafka.client.id": stage.client_id,
        "kafka.request.timeout.ms": "15000",
        "kafka.reconnect.backoff.ms": "20",
        "kafka.reconnect.backoff.max.ms": "200",
    }


def _gathers(stage: Stage) -> dict[str, str]:
    """Return the setting by which the sink fills its requests, if a unit has several records."""
    sends = stage.settings.producer
    return {"kafka.linger.ms": str(sends.linger_ms)} if sends.unit > 1 else {}


def _pass(name: str, rows: list[Row]) -> None:
    for row in rows:
        failpoint(name, decode_id(bytes(row.value)))


def _place(row: Row) -> tuple[int, int]:
    return row.partition, row.offset


def _copy(row: Row) -> Copy:
    return Copy(row.partition, UNKNOWN_EPOCH, row.offset)


def _text(key: bytearray | None) -> str | None:
    return None if key is None else bytes(key).decode("ascii", "replace")


def _json(begins: dict[int, int]) -> str:
    return ",".join(f'"{partition}":{offset}' for partition, offset in begins.items())


def stream(stage: Stage, ledger: LedgerWriter) -> None:
    """Run the stage until it is killed. If it must stand by, it makes its session first and then
    waits for its turn.
    """
    spark = SparkSession.builder.getOrCreate()
    if turn := os.environ.get(TURN):
        wait_until(Path(turn).exists, within_s=TURN_S, because="its turn")
    query = Query(stage, ledger, spark)
    query.start().awaitTermination()
    while stage.settings.consumer.query.available_now:
        time.sleep(TIMER_S)
        query.start().awaitTermination()


if __name__ == "__main__":
    run_stage(stream)
