"""Record batches as a broker sends them, read column by column: where in the bytes each record's
key and value are.

Only the lengths of records are read one by one; everything else is computed for all records of a
fetch at once. Control batches and batches of aborted transactions are left out, because a
read-committed reader does not see them.
"""

from __future__ import annotations

import heapq
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import cramjam
import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.audit.failures import NotOursToReadError
from harness.audit.pages import arrow_ints
from harness.audit.places import (
    LAST_BYTE,
    DamagedBatchError,
    Octets,
    as_bytes,
    fields_of,
    in_runs,
    inside,
    one_by_one,
    varints,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from harness.audit.pages import Ints


HEADER: Final = struct.Struct(">qiibIhiqqqhii")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset's delta, two timestamps,
producer id and epoch, base sequence, count.
"""
BEFORE_LENGTH: Final = 12
CHECKED_FROM: Final = 21
MAGIC: Final = 2
XERIAL: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER_BYTES: Final = 16
COMPRESSION, TRANSACTIONAL, CONTROL = 0x07, 0x10, 0x20
ABORT: Final = 0
SMALL: Final = 512
"""Records a batch, on average, below which it pays to look for records alike in all batches at
once.
"""
PADDING: Final = bytes(64)
"""Behind the last record, so that reading on never leaves the array: what is read there is thrown
away, or found out.
"""


class _Batch(NamedTuple):
    """A batch with records to be read: its base offset, how many, how compressed (0: not), from
    where to where they stand.
    """

    base: int
    records: int
    compression: int
    at: int
    end: int


def _snappy(data: bytes) -> Octets:
    """Decompress one block; or several, each with its length in front, as the Java client writes
    them behind a header.
    """
    if not data.startswith(XERIAL):
        return bytes(cramjam.snappy.decompress_raw(data))
    view, at, blocks = memoryview(data), XERIAL_HEADER_BYTES, []
    while at < len(data):
        begin = at + 4
        at = begin + int.from_bytes(view[begin - 4 : begin], "big")
        blocks.append(cramjam.snappy.decompress_raw(view[begin:at]))
    return b"".join(blocks)


DECOMPRESS: Final[dict[int, Callable[[bytes], Any]]] = {
    1: cramjam.gzip.decompress,
    2: _snappy,
    3: cramjam.lz4.decompress,
    4: cramjam.zstd.decompress,
}


@dataclass(frozen=True, slots=True)
class Records:
    """Records of one partition. ``data``: their bytes. Each array has one item per record;
    positions are within ``data``.

    A length of -1 is a null. ``headers_at``: the position of the number of headers.
    """

    data: Octets
    offsets: Ints
    key_at: Ints
    key_length: Ints
    value_at: Ints
    value_length: Ints
    headers_at: Ints

    def __len__(self) -> int:
        return len(self.offsets)

    def column(self, name: str) -> tuple[Ints, Ints]:
        """Return the positions and lengths of the ``key`` or the ``value`` of each record."""
        return (
            (self.key_at, self.key_length) if name == "key" else (self.value_at, self.value_length)
        )

    def value(self) -> pa.Array:
        """Return the values, as texts that may not be UTF-8."""
        return slices(self.data, self.value_at, self.value_length)

    def key(self) -> pa.Array:
        """Return the keys, as texts that may not be UTF-8."""
        return slices(self.data, self.key_at, self.key_length)

    def header(self, name: str) -> pa.Array:
        """Return the last header of this name of each record; null if a record has none.

        Raises:
            DamagedBatchError: the headers cannot be read.
        """
        view = as_bytes(self.data)
        wanted = np.frombuffer(name.encode(), dtype=np.uint8)
        left, at = varints(view, self.headers_at)
        found_at, found_length = np.zeros_like(left), np.full_like(left, -1)
        rows = np.flatnonzero(left > 0)
        left, at = left[rows], at[rows]
        while len(rows):
            length, at = varints(view, at)
            value_length, value_at = varints(view, inside(view, at + np.maximum(length, 0)))
            hit = length == len(wanted)
            for place in range(len(wanted)):
                hit &= view[np.where(hit, at + place, 0)] == wanted[place]
            found_at[rows[hit]], found_length[rows[hit]] = value_at[hit], value_length[hit]
            at = inside(view, value_at + np.maximum(value_length, 0))
            left = left - 1
            more = left > 0
            rows, left, at = rows[more], left[more], at[more]
        return slices(self.data, found_at, found_length)

    def between(self, first: int, end: int) -> Records:
        """Return the records with offsets from ``first`` to before ``end``."""
        if not len(self) or (self.offsets[0] >= first and self.offsets[-1] < end):
            return self
        good = (self.offsets >= first) & (self.offsets < end)
        columns = (
            self.offsets,
            self.key_at,
            self.key_length,
            self.value_at,
            self.value_length,
            self.headers_at,
        )
        return Records(self.data, *(column[good] for column in columns))


def slices(data: Octets, at: Ints, length: Ints) -> pa.Array:
    """Return slices of ``data`` as texts; a negative length gives null. The positions of the others
    must ascend.
    """
    there = length >= 0
    size = np.where(there, length, 0)
    if not there.all():
        at = np.maximum.accumulate(np.where(there, at, 0))
    ends = at + size
    if not there.all():
        # a null has no length and stands where the one before it ended, so that offsets ascend
        ends = np.maximum.accumulate(ends)
        at = np.where(there, at, np.concatenate([[0], ends[:-1]]))
        ends = at + size
    # every second element is a gap between two slices: no byte is copied before the gaps are left
    # out
    offsets = np.empty(2 * len(at) + 1, dtype=np.int32)
    offsets[0:-1:2], offsets[1::2] = at, ends
    offsets[-1] = ends[-1] if len(ends) else 0
    whole = pa.StringArray.from_buffers(2 * len(at), pa.py_buffer(offsets), pa.py_buffer(data))
    picked = whole.take(arrow_ints(np.arange(0, 2 * len(at), 2)))
    if there.all():
        return picked
    return pc.if_else(pa.array(there), picked, pa.scalar(None, pa.string()))


def next_offset(data: Octets, at: int = 0, stop: int | None = None) -> int | None:
    """Return the offset after the last complete batch of a fetch; ``None`` if there is no complete
    batch.

    The fetch is in ``data`` from ``at`` to ``stop``.
    """
    stop, last = len(data) if stop is None else stop, None
    while at + HEADER.size <= stop:
        length = int.from_bytes(data[at + 8 : at + BEFORE_LENGTH], "big")
        end = at + BEFORE_LENGTH + length
        if end > stop or length <= 0:
            break
        last = (
            int.from_bytes(data[at : at + 8], "big")
            + int.from_bytes(data[at + 23 : at + 27], "big")
            + 1
        )
        at = end
    return last


def read(
    data: Octets, aborted: Iterable[tuple[int, int]], at: int = 0, stop: int | None = None
) -> Records:
    """Read the visible records of one fetch; ``aborted`` are (first offset, producer id) of aborted
    transactions.

    The fetch is in ``data`` from ``at`` to ``stop``. If there is room after it, it is read in
    place, and the result is valid only as long as ``data`` is unchanged. An incomplete last batch
    is left out: it comes with the next fetch.

    Raises:
        DamagedBatchError: a checksum or a length is wrong.
        NotOursToReadError: the format is older than Kafka 0.11.
    """
    stop = len(data) if stop is None else stop
    pending = list(aborted)
    heapq.heapify(pending)
    gone: set[int] = set()
    batches: list[_Batch] = []
    view = memoryview(data)
    while at + HEADER.size <= stop:
        base, length, _, magic, crc, attributes, last, _, _, producer, _, _, count = (
            HEADER.unpack_from(data, at)
        )
        if magic != MAGIC:
            raise NotOursToReadError(f"a batch at offset {base} has the old format {magic}")
        end = at + BEFORE_LENGTH + length
        if end > stop:
            break
        body_at = at + HEADER.size
        if (
            length < HEADER.size - BEFORE_LENGTH
            or google_crc32c.value(bytes(view[at + CHECKED_FROM : end])) != crc
        ):
            raise DamagedBatchError(f"the batch at offset {base} is damaged: its checksum is wrong")
        at = end
        while pending and pending[0][0] <= base + last:
            gone.add(heapq.heappop(pending)[1])
        if attributes & CONTROL:
            if count and _marker(bytes(view[body_at:end])) == ABORT:
                gone.discard(producer)
            continue
        if attributes & TRANSACTIONAL and producer in gone:
            continue
        batches.append(_Batch(base, count, attributes & COMPRESSION, body_at, end))
    return _records(*_laid_out(data, batches))


def _laid_out(data: Octets, batches: list[_Batch]) -> tuple[Octets, list[_Batch]]:
    """Return bytes in which all bodies stand, decompressed, in order and with room behind; and
    where. Copied once at most.
    """
    if not any(batch.compression for batch in batches):
        roomy = not batches or batches[-1].end + len(PADDING) <= len(data)
        return data if roomy else b"".join([data, PADDING]), batches
    parts: list[Octets] = []
    placed: list[_Batch] = []
    size = 0
    for batch in batches:
        body: Octets = bytes(memoryview(data)[batch.at : batch.end])
        if batch.compression:
            body = _decompressed(bytes(body), batch.compression, batch.base)
        parts.append(body)
        placed.append(batch._replace(at=size, end=size + len(body)))
        size += len(body)
    return b"".join([*parts, PADDING]), placed


def _marker(body: bytes) -> int:
    """Return the type of a control record, -1 where it has none: length, attributes, two deltas,
    then the key.
    """
    view = np.frombuffer(body + PADDING, dtype=np.uint8)
    fields = fields_of(view, np.array([_skip(body, 0)], dtype=np.int64))
    key_at, key_length = int(fields[1][0]), int(fields[2][0])
    return (
        int.from_bytes(body[key_at + 2 : key_at + 4], "big", signed=True) if key_length >= 4 else -1  # noqa: PLR2004
    )


def _skip(body: bytes, at: int) -> int:
    while body[at] >= LAST_BYTE:
        at += 1
    return at + 1


def _decompressed(body: bytes, kind: int, base: int) -> Octets:
    if kind not in DECOMPRESS:
        raise NotOursToReadError(f"the batch at offset {base} has an unknown compression, {kind}")
    try:
        data: Octets = DECOMPRESS[kind](body)
    except Exception as error:
        raise DamagedBatchError(
            f"the batch at offset {base} cannot be decompressed: {error}"
        ) from error
    return data


def _records(data: Octets, batches: list[_Batch]) -> Records:
    """Find every record, then work out its parts for all of them at once."""
    starts, counts = [batch.at for batch in batches], [batch.records for batch in batches]
    find = in_runs if sum(counts) < SMALL * len(counts) else one_by_one
    places, ends, reached = find(data, starts, counts)
    for batch, at in zip(batches, reached, strict=True):
        if at != batch.end:
            raise DamagedBatchError(
                f"the batch at offset {batch.base} is damaged: its records end {at - batch.end} "
                "bytes behind it"
            )
    deltas, key_at, key_length, value_at, value_length, headers_at = fields_of(
        as_bytes(data), places
    )
    if bool((headers_at >= ends).any()):
        raise DamagedBatchError("a record's parts are longer than it")
    offsets = (
        np.repeat(np.array([batch.base for batch in batches], dtype=np.int64), counts) + deltas
    )
    return Records(data, offsets, key_at, key_length, value_at, value_length, headers_at)
