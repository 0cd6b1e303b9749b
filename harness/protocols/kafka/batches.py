"""Read record batches: uncompressed ones of the current format here, twice as fast as kafka-python;
all others by it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from kafka.record.memory_records import MemoryRecords

from harness.model.record import ATTEMPT_HEADER
from harness.protocols.kafka.inflating import Room

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafka.record.default_records import DefaultRecord, DefaultRecordBatch
    from kafka.record.legacy_records import LegacyRecord, LegacyRecordBatch

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset's delta, two timestamps,
producer id and epoch, base sequence, count.
"""
BEFORE_LENGTH: Final = 12
MAGIC: Final = 2
COMPRESSION, TRANSACTIONAL, CONTROL = 0x07, 0x10, 0x20
MOST_SHIFTED: Final = 63
MORE: Final = 0x80
"""In a byte of a varint: there is another one."""
ONE: Final = 1 << 1
"""As a varint."""
NAMED: Final = bytes([len(ATTEMPT_HEADER) << 1]) + ATTEMPT_HEADER.encode()
"""How the header begins by which our own programs name an attempt; then comes the size of its
value.
"""
SIZE_AT: Final = len(NAMED)


class Item(NamedTuple):
    """One record of a batch."""

    offset: int
    value: bytes | None
    attempt: str | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """One record batch. Absent numbers are -1. ``aborts``: whether it is an abort marker."""

    base_offset: int
    last_offset: int
    epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional: bool
    control: bool
    aborts: bool
    items: tuple[Item, ...]


def read_batches(data: bytes | memoryview | None, room: Room | None = None) -> tuple[Batch, ...]:
    """Read the record batches of one partition.

    A batch that is cut off at the end is left out, as consumers do. ``room``: how many decompressed
    bytes the frame's batches may still have.

    Raises:
        NotReadError: the batches have more bytes than the room.
    """
    if not data:
        return ()
    (room or Room()).take(data)
    return tuple(_batches(bytes(data)))


def _batches(data: bytes) -> Iterator[Batch]:
    at = 0
    while at < len(data):
        end = (
            at
            + BEFORE_LENGTH
            + int.from_bytes(data[at + 8 : at + BEFORE_LENGTH], "big", signed=True)
        )
        if not at + HEADER.size <= end <= len(data):  # cut off, damaged, or of an old format
            yield from (_other(batch) for batch in MemoryRecords(data[at:]))
            return
        batch = _plain(data, at, end)
        if batch is None:
            yield from (_other(other) for other in MemoryRecords(data[at:end]))
        else:
            yield batch
        at = end


def _plain(data: bytes, at: int, end: int) -> Batch | None:
    """Read an uncompressed batch of the current format; ``None`` if it is compressed or of another
    format.
    """
    base, _, epoch, magic, _, attributes, last, _, _, producer, producer_epoch, sequence, count = (
        HEADER.unpack_from(data, at)
    )
    if magic != MAGIC or attributes & (COMPRESSION | CONTROL):
        return None
    try:
        items = _items(data, at + HEADER.size, end, base, count)
    except (IndexError, UnicodeDecodeError):
        return None
    return (
        None
        if items is None
        else Batch(
            base,
            base + last,
            epoch,
            producer,
            producer_epoch,
            sequence,
            transactional=bool(attributes & TRANSACTIONAL),
            control=False,
            aborts=False,
            items=items,
        )
    )


def _items(data: bytes, at: int, end: int, base: int, count: int) -> tuple[Item, ...] | None:  # noqa: C901, PLR0912 - a call per number would take longer than all of it
    """Read so many records; None where they do not end where they say, and where the batch does."""
    items: list[Item] = []
    for _ in range(count):
        number = data[at]
        at += 1
        if number >= MORE:
            number, at = _more(data, number, at)
        stop = at + (number >> 1)
        if data[at]:  # attributes: none has been given a meaning
            return None
        at += 1
        while data[at] >= MORE:  # the timestamp
            at += 1
        at += 1
        delta = data[at]
        at += 1
        if delta >= MORE:
            delta, at = _more(data, delta, at)
        number = data[at]
        at += 1
        if number >= MORE:
            number, at = _more(data, number, at)
        key = None
        if not number & 1:
            key, at = data[at : at + (number >> 1)], at + (number >> 1)
        number = data[at]
        at += 1
        if number >= MORE:
            number, at = _more(data, number, at)
        value = None
        if not number & 1:
            value, at = data[at : at + (number >> 1)], at + (number >> 1)
        number = data[at]
        at += 1
        headers: tuple[tuple[str, bytes | None], ...] = ()
        attempt = None
        if number:
            if number >= MORE:
                number, at = _more(data, number, at)
            if number & 1:
                return None
            if (
                number == ONE
                and data.startswith(NAMED, at)
                and (size := data[at + SIZE_AT]) < MORE
                and not size & 1
            ):
                at += SIZE_AT + 1  # one header, as our own programs write it
                named, at = data[at : at + (size >> 1)], at + (size >> 1)
                headers, attempt = ((ATTEMPT_HEADER, named),), named.decode("utf-8", "replace")
            else:
                headers, at = _headers(data, at, number >> 1)
                attempt = attempt_of(headers)
        if at != stop or delta & 1:
            return None
        items.append(Item(base + (delta >> 1), value, attempt, key, headers))
    return tuple(items) if at == end else None


def _text(data: bytes, at: int) -> tuple[bytes | None, int]:
    length = data[at]
    at += 1
    if length >= MORE:
        length, at = _more(data, length, at)
    if length & 1:
        return None, at
    end = at + (length >> 1)
    return data[at:end], end


def _headers(data: bytes, at: int, count: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    found: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, at = _text(data, at)
        value, at = _text(data, at)
        if name is None:
            raise IndexError("a header without a name")
        found.append((name.decode(), value))
    return tuple(found), at


def _more(data: bytes, number: int, at: int) -> tuple[int, int]:
    """Read on a number of which the first byte says that there is more: as it stands there, its
    sign in the last bit.
    """
    number &= MORE - 1
    shift = 7
    while True:
        byte = data[at]
        at += 1
        number |= (byte & (MORE - 1)) << shift
        if byte < MORE:
            return number, at
        shift += 7
        if shift > MOST_SHIFTED:
            raise IndexError("a number without an end")


def _other(batch: DefaultRecordBatch | LegacyRecordBatch) -> Batch:
    """Return a batch as kafka-python reads it."""
    items = tuple(batch)
    new = batch.magic >= MAGIC
    control = bool(new and batch.is_control_batch)
    offset = items[-1].offset if items else -1
    return Batch(
        base_offset=batch.base_offset,
        last_offset=batch.last_offset if new else offset,
        epoch=batch.leader_epoch if new else -1,
        producer_id=batch.producer_id if new else -1,
        producer_epoch=batch.producer_epoch if new else -1,
        base_sequence=batch.base_sequence if new else -1,
        transactional=bool(new and batch.is_transactional),
        control=control,
        aborts=control and any(item.abort for item in items),
        items=() if control else tuple(_item(item) for item in items),
    )


def _item(item: DefaultRecord | LegacyRecord) -> Item:
    return Item(
        item.offset, item.value, attempt_of(item.headers), item.key, tuple(item.headers or ())
    )


def attempt_of(headers: Iterable[tuple[str, bytes | None]] | None) -> str | None:
    """Return the name of the attempt from a record's headers; ``None`` if there is none."""
    for key, value in headers or ():
        if key == ATTEMPT_HEADER and value is not None:
            return bytes(value).decode("utf-8", "replace")
    return None
