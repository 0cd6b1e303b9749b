"""Where each record of a batch begins, and where its parts are: for many batches at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from harness.audit.pages import Ints

Bytes: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]"
Octets: TypeAlias = "bytes | bytearray"
LAST_BYTE: Final = 0x80
"""A byte of a varint from which on there is another one."""
VARINT_BYTES: Final = 10
FIRST_LOOK: Final = 32
WORTH_IT: Final = 16
"""Records alike, from which on looking for them costs less than one by one."""
PATIENCE_MOST: Final = 64
IN_STEP: Final = 64
"""Batches side by side from which on it pays to walk through all of them at once."""
LOOKS: Final = (8, 64, 64, 1 << 31, 1 << 31)
"""How many records a batch are looked at in each turn: few, to learn whether any are alike; from
the 65th on an offset takes a byte more, and so its record does.
"""


class DamagedBatchError(Exception):
    """The bytes of a batch are damaged; the message is one line that says where."""


def in_runs(data: Octets, starts: list[int], counts: list[int]) -> tuple[Ints, Ints, list[int]]:
    """Find what :func:`one_by_one` finds: in all batches at once the records that are as long as
    the first of those left.

    It goes on for as long as that is worth it; what is left of the batches then is walked through.
    """
    view = as_bytes(data)
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
        find = _in_step if sum(walked) >= IN_STEP * max(walked) else one_by_one
        where = _counted_up(rows[rest], left[rest])
        places[where], ends[where], at[rest] = find(data, inside(view, at[rest]).tolist(), walked)
    return places, ends, at.tolist()


def _run(view: Bytes, at: Ints, most: Ints, rows: Ints, found: tuple[Ints, Ints]) -> Ints:
    """Note from each place on the records that begin with the same bytes, and so are of one size;
    return how many they are.
    """
    length, behind = varints(view, at)
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


def one_by_one(data: Octets, starts: list[int], counts: list[int]) -> tuple[Ints, Ints, list[int]]:
    """Return where each record begins behind its length, and ends; and where the last one of each
    batch ends.

    Where one record is as long as the one before, those behind are looked at in one go for as long
    as that holds; where that was no gain, not again for some records.
    """
    view = as_bytes(data)
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
    """Find what :func:`one_by_one` finds: the first records of all batches, then the second ones,
    and so on.
    """
    view, many = as_bytes(data), np.array(counts, dtype=np.int64)
    order = np.argsort(-many, kind="stable")  # batches that still have records come first
    at = np.array(starts, dtype=np.int64)[order]
    rows = (np.cumsum(many) - many)[order]
    left = many[order]
    places = np.empty(int(many.sum()), dtype=np.int64)
    ends = np.empty(len(places), dtype=np.int64)
    for step in range(max(counts)):
        some = int(np.searchsorted(-left, -step, side="left"))
        length, behind = varints(view, at[:some])
        places[rows[:some] + step] = behind
        at[:some] = inside(view, behind + length)
        ends[rows[:some] + step] = at[:some]
    reached = np.empty_like(at)
    reached[order] = at
    return places, ends, reached.tolist()


def fields_of(view: Bytes, at: Ints) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
    """Return of each record: its offset's delta, place and length of its key and of its value,
    place of its headers.
    """
    at = _past_varints(view, at + 1)  # attributes; then the timestamp
    deltas, at = varints(view, at)
    key_length, key_at = varints(view, at)
    value_length, value_at = varints(view, inside(view, key_at + np.maximum(key_length, 0)))
    headers_at = inside(view, value_at + np.maximum(value_length, 0))
    return deltas, key_at, key_length, value_at, value_length, headers_at


def as_bytes(data: Octets) -> Bytes:
    """Return the bytes as an array of them."""
    return np.frombuffer(data, dtype=np.uint8)


def inside(view: Bytes, at: Ints) -> Ints:
    """Return the places.

    Raises:
        DamagedBatchError: one of them is none.
    """
    if len(at) and int(at.max()) > len(view) - VARINT_BYTES:
        raise DamagedBatchError("a record's parts are longer than it")
    return at


def _past_varints(view: Bytes, at: Ints) -> Ints:
    """Return the places behind one varint of each record."""
    more = view[at] >= LAST_BYTE
    after = at + 1
    while more.any():
        after += more  # a varint that has ended stays where it is
        more &= view[after - 1] >= LAST_BYTE
    return inside(view, after)


def varints(view: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """Read one signed varint of each record. Returns the numbers, and the places behind them.

    Raises:
        DamagedBatchError: a number is not whole.
    """
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
    return (raw >> 1) ^ -(raw & 1), inside(view, after)
