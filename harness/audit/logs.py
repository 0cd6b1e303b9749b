"""A topic as a side of an audit on Spark: its Python tasks fetch and count the records, and no row
passes through a JVM.

One task reads one partition, in order. It also notes which numbers each fetch has. The second pass,
which looks for the places of duplicates and phantoms, then reads only the fetches that may have
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.audit.fetching import OffsetRange, fetched
from harness.audit.findings import UNREAD
from harness.audit.partials import CHUNKS, CHUNKS_OF, PARTIAL, SideCounts, count_rows, partial_rows
from harness.audit.texts import as_bytes, plain_reader_of, reader_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from harness.audit.batches import Records
    from harness.audit.extents import Extent
    from harness.audit.pages import Ints
    from harness.audit.spec import Rows
    from harness.audit.texts import Columns

PLACES: Final = (
    "key string, number long, place string, stands struct<partition: long, offset: long>, source "
    "binary, found string"
)
STANDS: Final = pa.struct([("partition", pa.int64()), ("offset", pa.int64())])
PLACES_ARROW: Final = pa.schema(
    [
        ("key", pa.string()),
        ("number", pa.int64()),
        ("place", pa.string()),
        ("stands", STANDS),
        ("source", pa.binary()),
        ("found", pa.string()),
    ]
)
CHUNK: Final = 6
"""Of each fetch, as int64: partition, first offset, offset behind it, least number, greatest
number, rows without a number.
"""
LOOKING_TASKS: Final = 16


@dataclass(frozen=True, slots=True)
class Log:
    """The stretches of a topic to read."""

    side: Rows
    stretches: tuple[OffsetRange, ...]


def log_of(side: Any, extent: Extent | None) -> Log | None:
    """Return a topic that tasks can fetch themselves, or None: encryption, log-in and other options
    are Spark's.
    """
    if extent is None or side.more or reader_of(side) is None:
        return None
    ends = extent.ends
    return Log(
        side,
        tuple(
            OffsetRange(side.at, side.topic, partition, first, ends[partition])
            for partition, first in sorted(extent.starts.items())
            if first < ends[partition]
        ),
    )


def counted_log(
    spark: SparkSession, log: Log, side: int, *, ordered: bool, phantoms: Mapping[str, Ints]
) -> DataFrame:
    """Count a topic, a task per partition; ``phantoms`` are left out of the order, where they are
    known.
    """

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for at in _numbers(batches):
            chunks: list[Ints] = []
            rows = _noting(read_rows(log.side, log.stretches[at]), chunks)
            yield from count_rows(rows, side, ordered=ordered, phantoms=phantoms)
            if chunks:
                yield partial_rows(
                    [
                        (
                            CHUNKS,
                            str(at),
                            CHUNKS_OF[side],
                            np.concatenate(chunks).tobytes(),
                            SideCounts(),
                        )
                    ]
                )

    return _tasks(spark, len(log.stretches)).mapInArrow(count, PARTIAL)


def places_in_log(
    spark: SparkSession, log: Log, numbers: list[int], chunks: bytes, *, unreadable: bool
) -> DataFrame:
    """Return where these numbers stand (and the first rows without one, if ``unreadable``), as
    PLACES.
    """
    wanted = np.array(numbers, dtype=np.int64)
    stretches = stretches_with(
        log, wanted, np.frombuffer(chunks, dtype=np.int64), unreadable=unreadable
    )
    tasks = min(len(stretches), LOOKING_TASKS)

    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for at in _numbers(batches):
            for stretch in stretches[at::tasks]:
                yield from looked_at(log.side, stretch, wanted, unreadable=unreadable)

    return _tasks(spark, tasks).mapInArrow(look, PLACES)


def looked_at(
    side: Rows, stretch: OffsetRange, wanted: Ints, *, unreadable: bool
) -> Iterator[pa.RecordBatch]:
    """Fetch a stretch again: where these numbers stand (and the first rows of each fetch without
    one), as PLACES.
    """
    for records in fetched(stretch):
        yield _hits(_read(side, records), records, stretch, wanted, unreadable=unreadable)


def stretches_with(log: Log, wanted: Ints, noted: Ints, *, unreadable: bool) -> list[OffsetRange]:
    """Pick the fetches in which numbers may stand, or the first rows without one, neighbours
    joined.

    ``noted`` is what was noted of each fetch, CHUNK numbers each, one after the other.
    """
    chunks = noted.reshape(-1, CHUNK)
    chunks = chunks[np.lexsort((chunks[:, 1], chunks[:, 0]))]
    inside = np.searchsorted(wanted, chunks[:, 3], side="left") < np.searchsorted(
        wanted, chunks[:, 4], side="right"
    )
    if unreadable:
        inside[np.flatnonzero(chunks[:, 5])[:UNREAD]] = True
    by_partition = {stretch.partition: stretch for stretch in log.stretches}
    found: list[OffsetRange] = []
    for partition, first, end in sorted(chunks[inside, :3].tolist()):
        if found and (found[-1].partition, found[-1].end) == (partition, first):
            found[-1] = found[-1]._replace(end=end)
        else:
            found.append(by_partition[partition]._replace(first=first, end=end))
    return found


def _hits(
    columns: Columns, records: Records, stretch: OffsetRange, wanted: Ints, *, unreadable: bool
) -> pa.RecordBatch:
    hit = pc.is_in(columns.numbers, pa.array(wanted)).to_numpy(zero_copy_only=False)
    if unreadable:
        hit[np.flatnonzero(columns.numbers.is_null().to_numpy(zero_copy_only=False))[:UNREAD]] = (
            True
        )
    at = np.flatnonzero(hit)
    picked = pa.array(at, pa.int64())
    keys = pa.nulls(len(at), pa.string()) if columns.keys is None else columns.keys.take(picked)
    numbers, source, found = (column.take(picked) for column in columns[1:])
    found = pc.cast(found, pa.string())
    offsets = records.offsets[at].tolist()
    texts = [
        None if number.is_valid else text
        for number, text in zip(numbers, as_bytes(source), strict=True)
    ]
    return pa.record_batch(
        [
            keys,
            numbers,
            pa.array(
                [f"{stretch.topic}/{stretch.partition}/{offset}" for offset in offsets], pa.string()
            ),
            pa.array(
                [{"partition": stretch.partition, "offset": offset} for offset in offsets], STANDS
            ),
            pa.array(texts, pa.binary()),
            found,
        ],
        schema=PLACES_ARROW,
    )


def read_rows(side: Rows, stretch: OffsetRange) -> Iterator[tuple[pa.RecordBatch, Ints]]:
    """Read a stretch: key and number of each record of a fetch, and what is to be noted of the
    fetch (CHUNK numbers).
    """
    at = stretch.first
    for records in fetched(stretch):
        keys, numbers = _ids(side, records)
        if not len(numbers):
            continue
        bounds, end = pc.min_max(numbers), int(records.offsets[-1]) + 1
        low, high = (
            (-1, -2)
            if bounds["min"].as_py() is None
            else (bounds["min"].as_py(), bounds["max"].as_py())
        )
        note = np.array([stretch.partition, at, end, low, high, numbers.null_count], dtype=np.int64)
        at = end
        yield (
            pa.record_batch(
                {"number": numbers} if keys is None else {"key": _coded(keys), "number": numbers}
            ),
            note,
        )


def _coded(keys: pa.Array) -> pa.Array:
    """Return keys as codes and names: a name is sent and looked up once."""
    return keys if isinstance(keys, pa.DictionaryArray) else keys.dictionary_encode()


def _noting(
    rows: Iterable[tuple[pa.RecordBatch, Ints]], notes: list[Ints]
) -> Iterator[pa.RecordBatch]:
    for batch, note in rows:
        notes.append(note)
        yield batch


_readers: dict[str, Callable[[Records], Columns]] = {}
_plain_readers: dict[str, Callable[[Records], pa.Array | None] | None] = {}


def _ids(side: Rows, records: Records) -> tuple[pa.Array | None, pa.Array]:
    """Read keys and numbers, all of them at once where nothing odd is among them."""
    if side.text not in _plain_readers:
        _plain_readers[side.text] = plain_reader_of(side)
    plain = _plain_readers[side.text]
    numbers = None if plain is None else plain(records)
    return (None, numbers) if numbers is not None else _read(side, records)[:2]


def _read(side: Rows, records: Records) -> Columns:
    """Read the ids; what reads them is made once in a process."""
    if side.text not in _readers:
        reading = reader_of(side)
        assert reading is not None  # noqa: S101 - of other sides there is no log
        _readers[side.text] = reading
    return _readers[side.text](records)


def _tasks(spark: SparkSession, count: int) -> DataFrame:
    """Return one row, and one task, per number below ``count``."""
    return spark.range(0, max(count, 1), 1, max(count, 1)).where(f"id < {count}")


def _numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()
