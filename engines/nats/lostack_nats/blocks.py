"""What the files of a stream say: every message that was stored, which of them were removed, and
what a consumer has not acknowledged. Without I/O.

A block (``msgs/N.blk``) is a row of records: length (bit 31: it has headers), sequence (bit 62: a
tombstone, which removes the message of that sequence; bit 63: erased), time, subject, headers,
message, checksum.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from lostack_nats.frames import headers_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_HEAD: Final = struct.Struct("<IQqH")
_HAS_HEADERS: Final = 1 << 31
_ERASED, _TOMBSTONE = 1 << 63, 1 << 62
_SUM: Final = 8
_STATE: Final = b"\x16\x02"


class StrangeFileError(OSError):
    """A file of a stream is not as the server writes it."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One record of a block. ``removes``: it is a tombstone."""

    sequence: int
    subject: str
    headers: Mapping[str, str] = field(hash=False)
    body: bytes
    removes: bool = False


def records_in(data: bytes) -> Iterator[Stored]:
    """Yield the records of a block. A record that is cut off at the end was never whole.

    Raises:
        StrangeFileError: the bytes are no records.
    """
    at = 0
    while at + _HEAD.size <= len(data):
        length, sequence, _, named = _HEAD.unpack_from(data, at)
        headed, length = bool(length & _HAS_HEADERS), length & ~_HAS_HEADERS
        if length < _HEAD.size + named + _SUM + 4 * headed:
            raise StrangeFileError(f"a record at byte {at} of a block has the length {length}")
        if at + length > len(data):
            return
        begins, ends = at + _HEAD.size, at + length - _SUM
        subject = data[begins : begins + named].decode(errors="replace")
        content = data[begins + named : ends]
        at += length
        if sequence & _ERASED:
            continue
        size = int.from_bytes(content[:4], "little") + 4 if headed else 0
        headers = headers_in(content[4:size]) if headed else {}
        removes = bool(sequence & _TOMBSTONE)
        yield Stored(sequence & ~_TOMBSTONE, subject, headers, content[size:], removes)


@dataclass(frozen=True, slots=True)
class Reader:
    """How far a consumer is: all up to ``floor`` is acknowledged, and what was ``given`` above it
    that is not among the ``pending``.
    """

    floor: int
    given: int
    pending: frozenset[int]

    def waits(self, sequence: int) -> bool:
        """Say whether a message waits for its first delivery, or for its acknowledgement."""
        return sequence > self.given or sequence in self.pending


def reader_of(data: bytes) -> Reader:
    """Return the state of a consumer from its file (``obs/NAME/o.dat``).

    Raises:
        StrangeFileError: the bytes are not of the known version.
    """
    if not data.startswith(_STATE):
        raise StrangeFileError("a consumer's file is of another version")
    numbers = _numbers(data[len(_STATE) :])
    _, floor, _, given, count = (next(numbers) for _ in range(5))
    pending = set()
    if count:
        next(numbers)
        for _ in range(count):
            pending.add(floor + next(numbers))
            next(numbers)
            next(numbers)
    return Reader(floor, given, frozenset(pending))


def _numbers(data: bytes) -> Iterator[int]:
    """Yield the numbers of variable length."""
    number = shift = 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:  # noqa: PLR2004 - the last byte of a number has no upper bit
            yield number
            number = shift = 0
    raise StrangeFileError("a consumer's file is cut off")
