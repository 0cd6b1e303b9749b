"""The audit on Spark: any side, in parallel, on any master. It counts as :mod:`harness.audit.pages`
does.

Every task counts its rows into pages and passes on compressed pages. Spark brings the pages of both
sides together by key and page and compares them there, so no task ever holds more than one page of
a hot key. The driver adds up one line per page.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from harness.audit.failures import AuditError
from harness.audit.findings import (
    EXAMPLES,
    UNREAD,
    Example,
    Findings,
    Gathering,
    PageFindings,
    Unreadable,
    compare,
)
from harness.audit.local import examples_of, range_pages
from harness.audit.logs import Log, counted_log, log_of, places_in_log
from harness.audit.pages import PAGE_BITS, encode, merge
from harness.audit.partials import (
    ARRIVED,
    CHUNKS,
    CHUNKS_OF,
    OFFERED,
    PARTIAL,
    SUMMARY,
    SideCounts,
    count_rows,
    partial_rows,
)
from harness.audit.session import one_line, said_in_a_task
from harness.audit.spark_columns import bounded, ids_of, places_of
from harness.audit.spec import NumberedRange, Rows, shown
from harness.audit.texts import unread
from harness.audit.topic import extent_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame, Row, SparkSession

    from harness.audit.extents import Extent
    from harness.audit.pages import Ints
    from harness.audit.spec import Side

LISTS: Final = ("runs", "again", "phantoms")
NAMES: Final = (
    *(field.name for field in dataclasses.fields(PageFindings)),
    "side",
    *SideCounts._fields,
)
FOUND: Final = (
    "key string, page long, offered long, offered_again long, arrived long, lost long, lost_runs "
    "long, duplicated long, duplicated_ids long, phantom long, runs array<array<long>>, again "
    "array<array<long>>, phantoms array<array<long>>, phantom_page binary, side int, reordered "
    "long, unreadable long, damaged long"
)
PAIRS: Final = pa.list_(pa.list_(pa.int64()))
SPECIAL: Final = {"key": pa.string(), "side": pa.int32(), "phantom_page": pa.binary()}
FOUND_ARROW: Final = pa.schema(
    [(name, SPECIAL.get(name, PAIRS if name in LISTS else pa.int64())) for name in NAMES]
)
SQLITE: Final = "jdbc:sqlite:"
URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|:|$")
"""Also SQLite's own words for what is no file, and nothing."""
PAGES_OF_A_TASK: Final = 4096
"""Pages of a numbered range that one task makes: 1.3 x 10⁸ ids."""
FETCHES: Final = {
    "kafka.max.poll.records": "100000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
}
"""Spark asks the broker for a partition's ends after each poll, and throws away what was fetched
beyond it: with the client's own 500 records a poll, nine tenths of each fetch. A SPEC may say
otherwise.
"""
LEFT_TO_SPARK: Final = ("NotOursToReadError", "ModuleNotFoundError")
"""What a task says that cannot fetch for itself: Spark's connector reads what the Java client
reads, and needs no package.
"""
PICKED: Final = 10_000
"""Pages with duplicates up to which only their rows are looked at again."""


def audit_on_spark(spark: SparkSession, offered: Side, arrived: Rows) -> Findings:
    """Compare two sides on Spark.

    Raises:
        AuditError: a side cannot be read completely.
    """
    try:
        try:
            return _audit(spark, offered, arrived, straight=True)
        except PySparkException as error:
            if not any(name in str(error) for name in LEFT_TO_SPARK):
                raise
            return _audit(spark, offered, arrived, straight=False)
    except (PySparkException, Py4JError) as error:
        raise AuditError(
            f"Spark could not read all records: {shown(said_in_a_task(error) or one_line(error))}"
        ) from error


def _audit(spark: SparkSession, offered: Side, arrived: Rows, *, straight: bool) -> Findings:
    """Compare two sides. ``straight``: topics are fetched from their leaders by the tasks
    themselves, where that can be done.
    """
    known, seen = _extent(spark, offered), _extent(spark, arrived)
    log, kept = (
        log_of(side, extent) if straight else None
        for side, extent in ((arrived, seen), (offered, known))
    )
    right = rows_of(spark, arrived, seen)
    if isinstance(offered, NumberedRange):
        source, left = _spans(spark, offered), _range_partials(spark, offered)
    else:
        source = rows_of(spark, offered, known)
        left = _side(source, OFFERED, offered, kept)
    there = _side(right, ARRIVED, arrived, log)
    parts = left.unionAll(there).repartition("key", "page").sortWithinPartitions("key", "page")
    gathering = Gathering()
    chunks: dict[int, list[bytes]] = {page: [] for page in CHUNKS_OF.values()}
    unreadable = {OFFERED: 0, ARRIVED: 0}
    for row in parts.mapInArrow(_meet, FOUND).collect():
        if row["side"] == CHUNKS:
            chunks[row["page"]].append(row["phantom_page"])
        elif row["side"] == SUMMARY:
            gathering.pages.append(_page_of(row.asDict()))
        else:
            gathering.reordered += row["reordered"]
            gathering.damaged += row["damaged"]
            unreadable[row["side"]] += row["unreadable"]
    if arrived.ordered and (phantoms := gathering.phantoms()):
        summary = _side(right, ARRIVED, arrived, log, phantoms).where(f.col("side") == SUMMARY)
        again = summary.agg(f.sum("reordered")).first()
        gathering.reordered = int(again[0] or 0) if again else 0
    found = gathering.findings(ordered=arrived.ordered)
    found = _with_origins(found, gathering, arrived, right, source)
    unknown, unseen = (() if extent is None else extent.doubts for extent in (known, seen))
    found = replace(found, unknown=unknown, unseen=unseen)
    if isinstance(offered, Rows) and unreadable[OFFERED]:
        with _looked_at(source, kept, [], chunks[CHUNKS_OF[OFFERED]], unreadable=True) as rows:
            found = replace(
                found, unread_offered=_unread(OFFERED, offered, rows, unreadable[OFFERED])
            )
    numbers = sorted({number for _, number in gathering.wanted()})
    with _looked_at(
        right, log, numbers, chunks[CHUNKS_OF[ARRIVED]], unreadable=unreadable[ARRIVED] > 0
    ) as rows:
        found = replace(found, unread_arrived=_unread(ARRIVED, arrived, rows, unreadable[ARRIVED]))
        return replace(found, examples=_examples(gathering, rows, numbers))


def _extent(spark: SparkSession, side: Side) -> Extent | None:
    return extent_of(spark, side) if isinstance(side, Rows) and side.kind == "kafka" else None


def _page_of(row: dict[str, Any]) -> PageFindings:
    fields = {
        name: value for name, value in row.items() if name not in {"side", *SideCounts._fields}
    }
    lists = {name: tuple(tuple(pair) for pair in fields[name]) for name in LISTS}
    return PageFindings(**{**fields, **lists})


def _side(
    rows: DataFrame,
    side: int,
    spec: Rows,
    log: Log | None,
    phantoms: Mapping[str, Ints] | None = None,
) -> DataFrame:
    """Count a side: its rows as Spark reads them, or, given a log, as its tasks fetch them."""
    if log is None:
        return _partials(rows, side, spec, phantoms)
    return counted_log(
        rows.sparkSession,
        log,
        side,
        ordered=spec.ordered and side == ARRIVED,
        phantoms=phantoms or {},
    )


# --- counting -------------------------------------------------------------------------------------


def _partials(
    rows: DataFrame, side: int, spec: Rows, phantoms: Mapping[str, Ints] | None = None
) -> DataFrame:
    """Count the rows of a side, task by task; ``phantoms`` are left out of the order, where they
    are known.
    """
    columns = [name for name in ("key", "number", "stream", "damaged") if name in rows.columns]
    ordered = spec.ordered and side == ARRIVED
    if spec.order is not None and ordered:
        keyed = "stream" if "stream" in rows.columns else "key" if "key" in rows.columns else None
        rows = (rows.repartition(f.col(keyed)) if keyed else rows.coalesce(1)).sortWithinPartitions(
            "recorded"
        )

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from count_rows(batches, side, ordered=ordered, phantoms=phantoms or {})

    return rows.select(*columns).mapInArrow(count, PARTIAL)


def _range_partials(spark: SparkSession, side: NumberedRange) -> DataFrame:
    """Make the pages of a numbered range where they are needed, in parallel."""
    size = PAGES_OF_A_TASK << PAGE_BITS
    jobs = [
        (span.key, low, min(low + size - 1, span.last))
        for span in side.spans
        for low in range(span.first, span.last + 1, size)
    ]

    def make(frames: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from harness.audit.findings import Span  # noqa: PLC0415 - in the task

        for frame in frames:
            for job in frame.to_pylist():
                part = NumberedRange("", (Span(job["key"], job["first"], job["last"]),))
                rows = [
                    (OFFERED, key, page, encode(copies), SideCounts())
                    for key, page, copies in range_pages(part)
                ]
                yield partial_rows(rows)

    frame = spark.createDataFrame(jobs, "key string, first long, last long")
    return frame.repartition(min(len(jobs), 64)).mapInArrow(make, PARTIAL)


def _meet(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Compare all that was counted of each page; the rows of a page stand together. What stands
    where is passed on.
    """
    at: tuple[str, int] | None = None
    parts: list[tuple[int, bytes, SideCounts]] = []
    done: list[dict[str, object]] = []
    for batch in batches:
        for row in batch.to_pylist():
            if at is not None and at != (row["key"], row["page"]):
                done.append(_met(*at, parts))
                parts = []
            at = (row["key"], row["page"])
            parts.append(
                (row["side"], row["data"], SideCounts(*(row[name] for name in SideCounts._fields)))
            )
        if done:
            yield pa.RecordBatch.from_pylist(done, schema=FOUND_ARROW)
            done = []
    if at is not None:
        yield pa.RecordBatch.from_pylist([_met(*at, parts)], schema=FOUND_ARROW)


def _met(key: str, page: int, parts: list[tuple[int, bytes, SideCounts]]) -> dict[str, object]:
    """Compare what was counted of one page; or add up the summaries of a side; or pass on what
    stands where in a log.
    """
    if parts[0][0] == CHUNKS:
        passed = PageFindings(key, page, phantom_page=b"".join(part[1] for part in parts))
        return dataclasses.asdict(passed) | {"side": CHUNKS} | SideCounts()._asdict()
    if parts[0][0] == SUMMARY:
        total = SideCounts(
            *(sum(counts) for counts in zip(*(part[2] for part in parts), strict=True))
        )
        return dataclasses.asdict(PageFindings(key, page)) | {"side": int(key)} | total._asdict()
    left, right = (
        merge([part[1] for part in parts if part[0] == side]) for side in (OFFERED, ARRIVED)
    )
    return (
        dataclasses.asdict(compare(key, page, left, right))
        | {"side": SUMMARY}
        | SideCounts()._asdict()
    )


# --- reading --------------------------------------------------------------------------------------


def absolute_path(at: str) -> str:
    """Make a relative path absolute, because Spark's JVM has another working directory. Anything
    else stays as it is.

    >>> [*map(absolute_path, ("hdfs://host/out", "/data/*", "jdbc:sqlite::memory:", "jdbc:pg://h"))]
    ['hdfs://host/out', '/data/*', 'jdbc:sqlite::memory:', 'jdbc:pg://h']
    >>> absolute_path("jdbc:sqlite:results.db") == f"jdbc:sqlite:{Path.cwd()}/results.db"
    True
    """
    given = SQLITE if at.startswith(SQLITE) else ""
    path = at.removeprefix(given)
    return at if URI.match(path) else f"{given}{Path.cwd() / path}"


def rows_of(spark: SparkSession, side: Rows, extent: Extent | None = None) -> DataFrame:
    """Return the rows of a side: ``number`` (or null), and those of ``key, stream, recorded, p, o,
    place`` that exist.

    For a row without a number, ``source`` is its whole text, ``found`` the part of it that should
    be the id, and ``stands`` is its place in the order. ``damaged`` marks lostack's own messages
    with a wrong checksum.
    """
    frame = (
        _topic(spark, side, extent)
        if side.kind == "kafka"
        else {"parquet": _parquet, "jdbc": _table}[side.kind](spark, side)
    )
    columns = {**ids_of(frame, side), **places_of(frame, side)}
    read = frame.select(*(column.alias(name) for name, column in columns.items()))
    return read.withColumn(
        "number", bounded(f.col("number"))
    )  # a step of its own: Spark works the number out once


def _topic(spark: SparkSession, side: Rows, extent: Extent | None) -> DataFrame:
    reader = (
        spark.read.format("kafka")
        .options(**FETCHES | dict(side.more))
        .option("kafka.bootstrap.servers", side.at)
    )
    reader = reader.option("subscribe", side.topic).option(
        "kafka.isolation.level", "read_committed"
    )
    if extent is not None:
        reader = reader.option("startingOffsets", extent.starting).option(
            "endingOffsets", extent.ending
        )
    headers = any(name is not None and name.startswith("header:") for name in (side.id, side.key))
    return (
        reader.option("failOnDataLoss", "true")
        .option("includeHeaders", str(headers).lower())
        .load()
    )


def _parquet(spark: SparkSession, side: Rows) -> DataFrame:
    return spark.read.parquet(absolute_path(side.at))


def _table(spark: SparkSession, side: Rows) -> DataFrame:
    reader = spark.read.format("jdbc").options(
        url=absolute_path(side.at), dbtable=side.table, fetchsize="10000", **dict(side.more)
    )
    if side.readers > 1:
        low, high = reader.load().agg(f.min(side.id), f.max(side.id)).first() or (None, None)
        if not isinstance(low, int) or not isinstance(high, int):
            raise AuditError(
                f"{shown(side.text)}: readers= needs an id column of whole numbers, and at least "
                "one row"
            )
        bounds = {
            "lowerBound": str(low),
            "upperBound": str(high + 1),
            "numPartitions": str(side.readers),
        }
        reader = reader.option("partitionColumn", side.id).options(**bounds)
    return reader.load()


# --- the second look ------------------------------------------------------------------------------


def _with_origins(
    found: Findings, gathering: Gathering, side: Rows, rows: DataFrame, offered: DataFrame
) -> Findings:
    """Split the duplicates: in a topic every copy was stored; in a table, by the log copies that
    rows were made from.
    """
    if side.kind == "kafka":
        return replace(found, stored_twice=found.duplicated, recorded_twice=0)
    if not side.with_origin:
        return found
    if not found.duplicated:
        return replace(found, stored_twice=0, recorded_twice=0)
    pages = sorted({page.page for page in gathering.pages if page.duplicated})
    mine = _keyed(rows).where(f.col("number").isNotNull())
    if len(pages) <= PICKED:
        mine = mine.where(f.shiftright("number", PAGE_BITS).isin(pages))
    copies = (
        mine.groupBy("key", "number")
        .agg(f.count("*").alias("n"), f.countDistinct("p", "o").alias("d"))
        .where("n > 1")
    )
    stored = _only_offered(copies, offered).agg(f.sum(f.col("d") - 1)).first()
    twice = int(stored[0] or 0) if stored else 0
    return replace(found, stored_twice=twice, recorded_twice=found.duplicated - twice)


def _keyed(rows: DataFrame) -> DataFrame:
    """Let every row have a key: the empty one where there is none."""
    return rows.withColumn(
        "key", f.coalesce("key", f.lit("")) if "key" in rows.columns else f.lit("")
    )


def _spans(spark: SparkSession, side: NumberedRange) -> DataFrame:
    return spark.createDataFrame(
        [(span.key, span.first, span.last) for span in side.spans], "k string, low long, high long"
    )


def _only_offered(copies: DataFrame, offered: DataFrame) -> DataFrame:
    """Leave out ids that were never offered: they are phantoms, and no duplicates. ``offered`` has
    rows or spans.
    """
    if "number" in offered.columns:
        return copies.join(_keyed(offered).select("key", "number"), ["key", "number"], "left_semi")
    within = (f.col("key") == f.col("k")) & f.col("number").between(f.col("low"), f.col("high"))
    return copies.join(f.broadcast(offered), within, "left_semi")


@contextlib.contextmanager
def _looked_at(
    rows: DataFrame, log: Log | None, numbers: list[int], chunks: list[bytes], *, unreadable: bool
) -> Iterator[DataFrame]:
    """Give the rows for a second look; of a log only those with these numbers, and the first
    without a readable one.
    """
    if log is None:
        yield rows
        return
    some = places_in_log(
        rows.sparkSession, log, numbers, b"".join(chunks), unreadable=unreadable
    ).cache()
    try:
        yield some
    finally:
        some.unpersist()


def _first(rows: DataFrame, count: int) -> list[Row]:
    """Return the first rows: in order of partition and offset, or of file and row; of
    a table, any.
    """
    return (rows.orderBy("stands") if "stands" in rows.columns else rows).limit(count).collect()


def _unread(side: int, spec: Rows, rows: DataFrame, count: int) -> Unreadable:
    """Return the rows without a readable id, so many, with the first texts; a damaged message that
    was offered is one.
    """
    if not count:
        return Unreadable(0, spec.unreadable)
    rows = rows.where(f.col("number").isNull())
    if side == ARRIVED and "damaged" in rows.columns:
        rows = rows.where(~f.col("damaged"))
    found = [
        unread(
            spec,
            None if row["source"] is None else bytes(row["source"]),
            row["found"],
            row["place"] or "",
        )
        for row in _first(
            rows if "place" in rows.columns else rows.withColumn("place", f.lit("")), UNREAD
        )
    ]
    return Unreadable(count, spec.unreadable, tuple(found))


def _examples(gathering: Gathering, rows: DataFrame, numbers: list[int]) -> tuple[Example, ...]:
    """Look for the places of some duplicated and phantom ids, where there are any, and of damaged
    messages.
    """
    wanted = gathering.wanted()
    places: dict[tuple[str, int], list[str]] = {}
    if "place" not in rows.columns:
        return examples_of(wanted, places)
    if wanted:
        hits = (
            _keyed(rows)
            .where(f.col("number").isin(numbers))
            .select("key", "number", "place")
            .limit(10_000)
        )
        for row in hits.collect():
            if (row["key"], row["number"]) in wanted:
                places.setdefault((row["key"], row["number"]), []).append(row["place"])
    damaged = (
        [row["place"] for row in _first(rows.where("damaged"), EXAMPLES)]
        if gathering.damaged
        else []
    )
    return examples_of(wanted, places, damaged)
