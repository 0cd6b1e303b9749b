"""Counts of the copies of every id, in pages: 32,768 neighbouring numbers of one key, one byte each
while counting.

An id is a key and a number from 0 to 2⁴⁰ - 1. The two are packed into one int64 (the key's code
above, the number below), so that a chunk of a million ids is one array, one sort and one scatter.
Pages that are not in use are compressed: a page in which every id was seen once takes some 150
bytes, one of random counts some 10 kB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Ints: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.int64]]"
Flags: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]"
Copies: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.uint32]]"
Bytes: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]"
Counts: TypeAlias = "Bytes | Copies"
"""How many copies of each id of a page; shape (PAGE,)."""

PAGE_BITS: Final = 15
PAGE: Final = 1 << PAGE_BITS
NUMBER_BITS: Final = 40
NUMBERS: Final = 1 << NUMBER_BITS
KEYS: Final = 1 << (62 - NUMBER_BITS)
MANY: Final = 255
"""A live count that stands for "look into the dictionary"."""
DENSE: Final = 1024
"""Ids per page from which a chunk is counted page by page."""
LIVE_PAGES: Final = 8192
"""Pages kept uncompressed: 256 MiB, 2.7 x 10⁸ ids."""
CODEC: Final = "lz4"


class TooManyKeysError(Exception):
    """There are more different keys than the packing has room for."""


def encode(copies: Counts | Flags) -> bytes:
    """Compress the counts of a page: its item size, then the bytes.

    >>> decode(encode(np.arange(PAGE, dtype=np.uint32)))[-1]
    np.uint32(32767)
    """
    small = copies.astype(np.uint8) if copies.max(initial=0) < MANY else copies.astype(np.uint32)
    return bytes([small.itemsize]) + bytes(pa.compress(small.tobytes(), codec=CODEC, asbytes=True))


def decode(data: bytes) -> Copies:
    """Return the counts of a page."""
    return _decoded(data).astype(np.uint32)


def _decoded(data: bytes) -> Counts:
    size = data[0]
    raw = pa.decompress(data[1:], decompressed_size=PAGE * size, codec=CODEC, asbytes=True)
    if size == 1:
        return np.frombuffer(raw, dtype=np.uint8)
    return np.frombuffer(raw, dtype=np.uint32)


def merge(parts: list[bytes]) -> Copies | None:
    """Add up the counts of one page from several tallies; ``None`` if there are none."""
    if not parts:
        return None
    total = decode(parts[0])
    for part in parts[1:]:
        total += _decoded(part)
    return total


class Keys:
    """Gives each key a code (0, 1, 2, ...), in the order of appearance."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self.names: list[str] = []

    def code(self, name: str) -> int:
        """Return the code of one key.

        Raises:
            TooManyKeysError: there are more than four million.
        """
        code = self._codes.setdefault(name, len(self.names))
        if code == len(self.names):
            if code >= KEYS:
                raise TooManyKeysError(f"more than {KEYS} different keys")
            self.names.append(name)
        return code

    def codes(self, names: pa.Array | pa.ChunkedArray) -> Ints:
        """Return the code of each of many keys; null counts as the empty key."""
        if isinstance(names, pa.ChunkedArray):
            names = names.combine_chunks()
        encoded = (
            names
            if isinstance(names, pa.DictionaryArray)
            else names.fill_null("").dictionary_encode()
        )
        table = np.array(
            [self.code(name or "") for name in encoded.dictionary.to_pylist()], dtype=np.int64
        )
        rows = encoded.indices
        if rows.null_count:
            rows, table = rows.fill_null(len(table)), np.append(table, self.code(""))
        codes: Ints = table[rows.to_numpy(zero_copy_only=False)]
        return codes


def arrow_ints(numbers: Ints) -> pa.Array:
    """Return numbers as an array of Arrow's, not copied."""
    return pa.Array.from_buffers(
        pa.int64(),
        len(numbers),
        [None, pa.py_buffer(np.ascontiguousarray(numbers, dtype=np.int64))],
    )


def pack(codes: Ints | int, numbers: Ints) -> Ints:
    """Pack keys and numbers into ids. The numbers must be in range."""
    return (
        (np.int64(codes) << NUMBER_BITS) | numbers
        if isinstance(codes, int)
        else (codes << NUMBER_BITS) | numbers
    )


def _climbs(ids: Ints) -> bool:
    """Whether the ids are different and ascending, as they are where nothing has gone wrong."""
    return bool((ids[1:] > ids[:-1]).all())


def packed(numbers: Mapping[str, Ints], keys: Keys) -> Ints:
    """Pack numbers per key into one ascending array of ids."""
    parts = [pack(keys.code(key), some) for key, some in numbers.items()]
    return np.sort(np.concatenate(parts)) if parts else np.zeros(0, dtype=np.int64)


class Tally:
    """Counts the copies of ids. Memory: ``live_pages`` x 32 KiB, and the compressed pages."""

    def __init__(self, live_pages: int = LIVE_PAGES) -> None:
        self.rows = 0
        self.compressed_bytes = 0
        self._state = np.zeros(
            live_pages * PAGE, dtype=np.uint8
        )  # the kernel gives memory only where it is touched
        self._live: dict[int, int] = {}
        self._cold: dict[int, bytes] = {}
        self._many: dict[int, int] = {}
        self._room = live_pages

    def add(self, ids: Ints) -> None:
        """Count a chunk."""
        self.rows += len(ids)
        if not _climbs(ids):
            ids = np.sort(ids)
        starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]])[: len(ids)])
        if len(starts) == len(ids):
            self._add_sorted(ids, np.ones(len(ids), dtype=np.int64))
        else:
            self._add_sorted(ids[starts], np.diff(np.append(starts, len(ids))))

    def add_in_order(self, ids: Ints) -> Flags:
        """Count a chunk and say, for each row, whether it is the first copy of its id. Half as fast
        as :meth:`add`.
        """
        self.rows += len(ids)
        if _climbs(ids):
            return self._add_sorted(ids, np.ones(len(ids), dtype=np.int64))
        order = np.argsort(ids, kind="stable")
        ordered = ids[order]
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        fresh = self._add_sorted(ordered[starts], np.diff(np.append(starts, len(ids))))
        first = np.zeros(len(ids), dtype=np.bool_)
        first[order[starts[fresh]]] = True
        return first

    def _add_sorted(self, ids: Ints, counts: Ints) -> Flags:
        """Count different, ascending ids, each ``counts`` times; say which were never
        seen before.
        """
        if not len(ids):
            return np.zeros(0, dtype=np.bool_)
        pages = ids >> PAGE_BITS
        starts = np.flatnonzero(np.concatenate([[True], pages[1:] != pages[:-1]]))
        fresh = np.zeros(len(ids), dtype=np.bool_)
        for at in range(0, len(starts), self._room):
            some = starts[at : at + self._room]
            end = int(starts[at + self._room]) if at + self._room < len(starts) else len(ids)
            part = slice(int(some[0]), end)
            slots = self._slots(pages[some])
            if end - part.start >= DENSE * len(some):
                ends = [*some[1:].tolist(), end]
                for slot, low, high in zip(slots.tolist(), some.tolist(), ends, strict=True):
                    fresh[low:high] = self._run(ids[low:high], slot, counts[low:high])
            else:
                lengths = np.diff(np.append(some, end))
                fresh[part] = self._scatter(ids[part], np.repeat(slots, lengths), counts[part])
        return fresh

    def _run(self, ids: Ints, slot: int, counts: Ints) -> Flags:
        """Count ids of one page; three times as fast as :meth:`_scatter` where they follow one
        another.
        """
        first = int(ids[0]) & (PAGE - 1)
        place = self._state[slot * PAGE + first : slot * PAGE + first + len(ids)]
        if (
            int(ids[-1]) - int(ids[0]) + 1 != len(ids)
            or int(place.max()) + int(counts.max()) >= MANY
        ):
            return self._scatter(ids, np.full(len(ids), slot, dtype=np.int64), counts)
        fresh: Flags = place == 0
        place += counts.astype(np.uint8)
        return fresh

    def _scatter(self, ids: Ints, slots: Ints, counts: Ints) -> Flags:
        places = slots * PAGE + (ids & (PAGE - 1))
        before = self._state[places]
        after = before + counts
        many = np.flatnonzero(after >= MANY)
        for row in many.tolist():
            one = int(ids[row])
            self._many[one] = self._many.get(one, int(before[row])) + int(counts[row])
        self._state[places] = np.minimum(after, MANY)
        fresh: Flags = before == 0
        return fresh

    def _slots(self, pages: Ints) -> Ints:
        """Return where each of these pages lives, brought to life where it lies cold or was never
        seen.
        """
        wanted = pages.tolist()
        missing = [page for page in wanted if page not in self._live]
        if len(self._live) + len(missing) > self._room:
            self._cool()
            missing = wanted
        for page in missing:
            slot = len(self._live)
            self._live[page] = slot
            if page in self._cold:
                data = self._cold.pop(page)
                self.compressed_bytes -= len(data)
                self._page(slot)[:] = np.minimum(decode(data), MANY)
        return np.array([self._live[page] for page in wanted], dtype=np.int64)

    def _page(self, slot: int) -> Bytes:
        return self._state[slot * PAGE : (slot + 1) * PAGE]

    def _cool(self) -> None:
        """Compress every living page."""
        for page, slot in self._live.items():
            data = bytes([1]) + bytes(
                pa.compress(self._page(slot).tobytes(), codec=CODEC, asbytes=True)
            )
            self._cold[page] = data
            self.compressed_bytes += len(data)
        self._state[: len(self._live) * PAGE] = 0
        self._live.clear()

    def pages(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield every page as (key's code, page, encoded counts). The tally cannot be used any
        more.
        """
        self._cool()
        many: dict[int, dict[int, int]] = {}
        for one, count in self._many.items():
            many.setdefault(one >> PAGE_BITS, {})[one & (PAGE - 1)] = count
        bits = NUMBER_BITS - PAGE_BITS
        while self._cold:
            packed, data = self._cold.popitem()
            if packed in many:
                copies = decode(data)
                copies[list(many[packed])] = list(many[packed].values())
                data = encode(copies)
            yield packed >> bits, packed & ((1 << bits) - 1), data


class Order:
    """Counts, for each stream, the first copies whose number is below an earlier one. Give it the
    rows in order of arrival.
    """

    def __init__(self) -> None:
        self.reordered = 0
        self._highest: dict[int, int] = {}

    def add(self, streams: Ints | None, numbers: Ints) -> None:
        """Add the next first copies: the stream of each (``None``: all are of one stream) and its
        number.
        """
        if not len(numbers):
            return
        if streams is None:
            self._read_stream(0, numbers)
            return
        order = np.argsort(streams, kind="stable")
        streams, numbers = streams[order], numbers[order]
        starts = np.flatnonzero(np.concatenate([[True], streams[1:] != streams[:-1]]))
        if len(starts) == 1:
            self._read_stream(int(streams[0]), numbers)
            return
        # one running maximum for all: each stream is lifted above the ones before it
        ranks = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(streams))))
        base = np.array(
            [self._highest.get(stream, -1) for stream in streams[starts].tolist()], dtype=np.int64
        )
        lifted = numbers + 1 + (ranks << NUMBER_BITS + 1)
        lifted[starts] = np.maximum(lifted[starts], base + 1 + (ranks[starts] << NUMBER_BITS + 1))
        top = np.maximum.accumulate(lifted)
        self.reordered += int((numbers + 1 + (ranks << NUMBER_BITS + 1) < top).sum())
        ends = np.append(starts[1:], len(streams)) - 1
        highest = (top[ends] & ((1 << NUMBER_BITS + 1) - 1)) - 1
        self._highest.update(zip(streams[starts].tolist(), highest.tolist(), strict=True))

    def _read_stream(self, stream: int, numbers: Ints) -> None:
        top = np.maximum.accumulate(np.maximum(numbers, self._highest.get(stream, -1)))
        self.reordered += int((numbers < top).sum())
        self._highest[stream] = int(top[-1])
