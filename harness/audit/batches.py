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
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import cramjam
import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.audit.failures import NotOursToReadError
from harness.audit.pages import arrow_ints

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from harness.audit.pages import Ints

Bytes: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]"
Octets: TypeAlias = "bytes | bytearray"

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
LAST_BYTE: Final = 0x80
"""A byte of a varint from which on there is another one."""
VARINT_BYTES: Final = 10
FIRST_LOOK: Final = 32
WORTH_IT: Final = 16
"""Records alike, from which on looking for them costs less than one by one."""
PATIENCE_MOST: Final = 64
IN_STEP: Final = 64
"""Batches side by side from which on it pays to walk through all of them at once."""
SMALL: Final = 512
"""Records a batch, on average, below which it pays to look for records alike in all batches at
once.
"""
LOOKS: Final = (8, 64, 64, 1 << 31, 1 << 31)
"""How many records a batch are looked at in each turn: few, to learn whether any are alike; from
the 65th on an offset takes a byte more, and so its record does.
"""
PADDING: Final = bytes(64)
"""Behind the last record, so that reading on never leaves the array: what is read there is thrown
away, or found out.
"""


class DamagedBatchError(Exception):
    """The bytes of a batch are damaged; the message is one line that says where."""


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
        view = _view(self.data)
        wanted = np.frombuffer(name.encode(), dtype=np.uint8)
        left, at = _varints(view, self.headers_at)
        found_at, found_length = np.zeros_like(left), np.full_like(left, -1)
        rows = np.flatnonzero(left > 0)
        left, at = left[rows], at[rows]
        while len(rows):
            length, at = _varints(view, at)
            value_length, value_at = _varints(view, _inside(view, at + np.maximum(length, 0)))
            hit = length == len(wanted)
            for place in range(len(wanted)):
                hit &= view[np.where(hit, at + place, 0)] == wanted[place]
            found_at[rows[hit]], found_length[rows[hit]] = value_at[hit], value_length[hit]
            at = _inside(view, value_at + np.maximum(value_length, 0))
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
    fields = _fields(view, np.array([_skip(body, 0)], dtype=np.int64))
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
    find = _in_runs if sum(counts) < SMALL * len(counts) else _one_by_one
    places, ends, reached = find(data, starts, counts)
    for batch, at in zip(batches, reached, strict=True):
        if at != batch.end:
            raise DamagedBatchError(
                f"the batch at offset {batch.base} is damaged: its records end {at - batch.end} "
                "bytes behind it"
            )
    deltas, key_at, key_length, value_at, value_length, headers_at = _fields(_view(data), places)
    if bool((headers_at >= ends).any()):
        raise DamagedBatchError("a record's parts are longer than it")
    offsets = (
        np.repeat(np.array([batch.base for batch in batches], dtype=np.int64), counts) + deltas
    )
    return Records(data, offsets, key_at, key_length, value_at, value_length, headers_at)


def _in_runs(data: Octets, starts: list[int], counts: list[int]) -> tuple[Ints, Ints, list[int]]:
    """Find what :func:`_one_by_one` finds: in all batches at once the records that are as long as
    the first of those left.

    It goes on for as long as that is worth it; what is left of the batches then is walked through.
    """
    view = _view(data)
    at, left = np.array(starts, dtype=np.int64), np.array(counts, dtype=np.int64)
    rows = np.cumsum(left) - left
    places = np.empty(int(left.sum()), dtype=np.int64)
    ends = np.empty_like(places)
    for most in LOOKS:
        some = np.flatnonzero((left > 0) & (at <= len(view) - VARINT_BYTES))
        if not len(some):
            break
        run = _run(view, at[some], np.minimum(left[some], most), rows[some], (places, ends))
        some, run = some[run > 0], run[run > 0]
        rows[some] += run
        left[some] -= run
        at[some] = ends[rows[some] - 1]
        if run.sum() < 2 * len(run):
            break
    rest = np.flatnonzero(left > 0)
    if len(rest):
        walked = left[rest].tolist()
        find = _in_step if sum(walked) >= IN_STEP * max(walked) else _one_by_one
        where = _counted_up(rows[rest], left[rest])
        places[where], ends[where], at[rest] = find(data, _inside(view, at[rest]).tolist(), walked)
    return places, ends, at.tolist()


def _run(view: Bytes, at: Ints, most: Ints, rows: Ints, found: tuple[Ints, Ints]) -> Ints:
    """Note from each place on the records that begin with the same bytes, and so are of one size;
    return how many they are.
    """
    length, behind = _varints(view, at)
    width = behind - at
    size = np.maximum(width + length, 1)
    many = np.where(length < 0, 0, np.minimum(most, (len(view) - VARINT_BYTES - at) // size + 1))
    step = _counted_up(np.zeros_like(many), many)
    position = np.repeat(at, many) + step * np.repeat(size, many)
    same = view[position] == np.repeat(view[at], many)
    for place in range(1, int(width.max())):
        same &= (view[position + place] == np.repeat(view[at + place], many)) | np.repeat(
            width <= place, many
        )
    odd = np.flatnonzero(~same)
    begin = np.cumsum(many) - many
    first = np.append(odd, len(same))[np.searchsorted(odd, begin)]
    run: Ints = np.minimum(first - begin, many)
    good = step < np.repeat(run, many)
    where, position = _counted_up(rows, run), position[good]
    places, ends = found
    places[where] = position + np.repeat(width, run)
    ends[where] = position + np.repeat(size, run)
    return run


def _counted_up(first: Ints, many: Ints) -> Ints:
    """Return for each item ``many`` numbers, from ``first`` on, one after the other."""
    before = np.cumsum(many) - many
    numbers: Ints = np.arange(int(many.sum()), dtype=np.int64) + np.repeat(first - before, many)
    return numbers


def _one_by_one(data: Octets, starts: list[int], counts: list[int]) -> tuple[Ints, Ints, list[int]]:
    """Return where each record begins behind its length, and ends; and where the last one of each
    batch ends.

    Where one record is as long as the one before, those behind are looked at in one go for as long
    as that holds; where that was no gain, not again for some records.
    """
    view = _view(data)
    places = np.empty(sum(counts), dtype=np.int64)
    ends = np.empty(len(places), dtype=np.int64)
    reached: list[int] = []
    row, most, patience = 0, len(data) - VARINT_BYTES, 1
    for at, count in zip(starts, counts, strict=True):
        last = row + count
        before, skip = b"", 0
        while row < last and at <= most:
            begin = at
            byte = data[at]
            at += 1  # noqa: PLW2901 - walks from record to record
            length = byte & 0x7F
            shift = 7
            while byte >= LAST_BYTE:
                byte = data[at]
                at += 1  # noqa: PLW2901
                length |= (byte & 0x7F) << shift
                shift += 7
            places[row] = at
            at += length >> 1  # noqa: PLW2901 - zigzag: a length is never negative
            ends[row] = at
            row += 1
            skip -= 1
            if skip > 0:
                continue
            head = bytes(data[begin : int(places[row - 1])])
            if head != before:
                before = head
                continue
            alike = _alike(view, head, at, at - begin, last - row)
            positions = at + (at - begin) * np.arange(alike, dtype=np.int64)
            places[row : row + alike] = positions + len(head)
            ends[row : row + alike] = positions + (at - begin)
            row += alike
            at += (at - begin) * alike  # noqa: PLW2901
            patience = 1 if alike >= WORTH_IT else min(2 * patience, PATIENCE_MOST)
            skip = 0 if alike >= WORTH_IT else patience * WORTH_IT
        reached.append(at)
    return places, ends, reached


def _alike(view: Bytes, head: bytes, at: int, size: int, most: int) -> int:
    """Return how many records, from a place on, begin with the same bytes, and so are of one size.
    Looks at a few at first.
    """
    alike, some = 0, FIRST_LOOK
    while True:
        many = min(some, most - alike, (len(view) - VARINT_BYTES - at) // size + 1 - alike)
        if many <= 0:
            return alike
        first = at + size * alike
        same = np.ones(many, dtype=np.bool_)
        for place, byte in enumerate(head):
            same &= view[first + place : first + place + size * (many - 1) + 1 : size] == byte
        if not same.all():
            return alike + int(same.argmin())
        alike += many
        some *= 4


def _in_step(data: Octets, starts: list[int], counts: list[int]) -> tuple[Ints, Ints, list[int]]:
    """Find what :func:`_one_by_one` finds: the first records of all batches, then the second ones,
    and so on.
    """
    view, many = _view(data), np.array(counts, dtype=np.int64)
    order = np.argsort(-many, kind="stable")  # whoever still has records stands in front
    at = np.array(starts, dtype=np.int64)[order]
    rows = (np.cumsum(many) - many)[order]
    left = many[order]
    places = np.empty(int(many.sum()), dtype=np.int64)
    ends = np.empty(len(places), dtype=np.int64)
    for step in range(max(counts)):
        some = int(np.searchsorted(-left, -step, side="left"))
        length, behind = _varints(view, at[:some])
        places[rows[:some] + step] = behind
        at[:some] = _inside(view, behind + length)
        ends[rows[:some] + step] = at[:some]
    reached = np.empty_like(at)
    reached[order] = at
    return places, ends, reached.tolist()


def _fields(view: Bytes, at: Ints) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
    """Return of each record: its offset's delta, place and length of its key and of its value,
    place of its headers.
    """
    at = _past_varints(view, at + 1)  # attributes; then the timestamp
    deltas, at = _varints(view, at)
    key_length, key_at = _varints(view, at)
    value_length, value_at = _varints(view, _inside(view, key_at + np.maximum(key_length, 0)))
    headers_at = _inside(view, value_at + np.maximum(value_length, 0))
    return deltas, key_at, key_length, value_at, value_length, headers_at


def _view(data: Octets) -> Bytes:
    return np.frombuffer(data, dtype=np.uint8)


def _inside(view: Bytes, at: Ints) -> Ints:
    """Return the places. Raises DamagedBatchError where one is none."""
    if len(at) and int(at.max()) > len(view) - VARINT_BYTES:
        raise DamagedBatchError("a record's parts are longer than it")
    return at


def _past_varints(view: Bytes, at: Ints) -> Ints:
    """Return the places behind one varint of each record."""
    more = view[at] >= LAST_BYTE
    after = at + 1
    while more.any():
        after += more  # who is through stands still
        more &= view[after - 1] >= LAST_BYTE
    return _inside(view, after)


def _varints(view: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """Read one signed varint of each record. Returns the numbers, and the places behind them."""
    byte = view[at]
    raw = byte.astype(np.int64)
    after = at + 1
    more = byte >= LAST_BYTE
    shift = 7
    while more.any():
        if shift > 7 * (VARINT_BYTES - 1):
            raise DamagedBatchError("a number in a record has no end")
        raw &= (1 << shift) - 1
        byte = view[after]
        if not more.all():
            byte = byte * more
        raw |= byte.astype(np.int64) << shift
        after += more
        more = byte >= LAST_BYTE
        shift += 7
    return (raw >> 1) ^ -(raw & 1), _inside(view, after)
