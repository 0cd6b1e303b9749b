"""Read and make frames: a command and, for SEND and MESSAGE, a message after it. Pure: bytes in,
values out.

A frame is the size of what follows (int32), the size of its command (int32), and the command: a
``BaseCommand``. Its first field is the type, and the field with the type's number holds the
content. After a SEND or MESSAGE comes, if there is a checksum, 0x0e01 and a CRC32C of all that
follows; then the size of the metadata (int32), the metadata, and the payload. A broker may put its
own metadata before all that, after 0x0e02.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import google_crc32c

from harness.protocols.pulsar.protobuf import MalformedError, Message, made

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.protocols.pulsar.protobuf import Value
    from harness.wire.protocol import Data

INT: Final = struct.Struct(">I")
SIZES: Final = 8
"""Bytes before the command."""
MOST_BYTES: Final = 1 << 28
"""The largest frame: 50 times a broker's default limit, and less than the size that the first bytes
of TLS would mean.
"""
MOST_COMMAND_BYTES: Final = 1 << 20
MOST_METADATA_BYTES: Final = 1 << 20
CHECKSUM: Final = b"\x0e\x01"
BROKERS_OWN: Final = b"\x0e\x02"
TYPE: Final = 1


class NotAFrameError(ValueError):
    """The bytes at this place are not a frame."""


def _int(data: Data, at: int) -> int:
    found: int = INT.unpack_from(data, at)[0]
    return found


@dataclass(frozen=True, slots=True)
class Head:
    """A command: the number of its type, its content, the size of its frame, and the offset at
    which the command ends.
    """

    type: int
    said: Message
    size: int
    end: int


def head(data: Data) -> Head | int:
    """Read the command at the beginning of a frame, or return how many bytes are needed for that.

    Raises:
        NotAFrameError: a frame cannot begin with these bytes.
    """
    if len(data) < SIZES:
        return SIZES
    total, size = _int(data, 0), _int(data, INT.size)
    if not INT.size <= total <= MOST_BYTES or not 0 < size <= min(
        total - INT.size, MOST_COMMAND_BYTES
    ):
        raise NotAFrameError(f"a command of {size} bytes in a frame of {total}")
    if len(data) < SIZES + size:
        return SIZES + size
    try:
        command = Message(bytes(data[SIZES : SIZES + size]))
        kind = command.number(TYPE)
        return Head(
            kind,
            command.inner(kind) if kind > TYPE else Message(b""),
            INT.size + total,
            SIZES + size,
        )
    except MalformedError as error:
        raise NotAFrameError(f"a command with {error}") from None


@dataclass(frozen=True, slots=True)
class Outline:
    """The offsets of a message's parts in its frame: its checksum (``None`` if absent), the checked
    bytes, its payload.
    """

    metadata: Message
    checksum: int | None
    covered: int
    payload: int


def outline(data: Data, at: int, size: int) -> Outline | int:
    """Read the metadata of a message at ``at`` in a frame of ``size`` bytes, or return how many
    bytes are needed for that.

    Raises:
        NotAFrameError: the metadata cannot be read.
    """

    def there(end: int) -> bool:
        if end > size:
            raise NotAFrameError(f"a message that ends behind its frame of {size} bytes")
        return len(data) >= end

    for mark in (BROKERS_OWN, CHECKSUM):
        if not there(at + len(mark)):
            return at + len(mark)
        if bytes(data[at : at + len(mark)]) != mark:
            continue
        at += len(mark) + INT.size
        if not there(at):
            return at
        if mark == CHECKSUM:
            return _metadata(data, at, size, _int(data, at - INT.size))
        at += _int(data, at - INT.size)
    return _metadata(data, at, size, None)


def _metadata(data: Data, at: int, size: int, checksum: int | None) -> Outline | int:
    begin = at + INT.size
    if begin > size:
        raise NotAFrameError(f"a message that ends behind its frame of {size} bytes")
    if len(data) < begin:
        return begin
    end = begin + _int(data, at)
    if end > size or end - begin > MOST_METADATA_BYTES:
        raise NotAFrameError(f"metadata of {end - begin} bytes")
    if len(data) < end:
        return end
    try:
        return Outline(Message(bytes(data[begin:end])), checksum, at, end)
    except MalformedError as error:
        raise NotAFrameError(f"metadata with {error}") from None


def is_sound(outlined: Outline, data: bytes) -> bool:
    """Return whether a message's checksum is correct, or absent. ``data``: its whole frame."""
    return (
        outlined.checksum is None
        or google_crc32c.value(data[outlined.covered :]) == outlined.checksum
    )


def command(
    kind: int, said: Mapping[int, Value | str | Iterable[Value]], message: bytes = b""
) -> bytes:
    r"""Make a frame.

    >>> command(18, {})
    b'\x00\x00\x00\t\x00\x00\x00\x05\x08\x12\x92\x01\x00'
    """
    inside = made({TYPE: kind, kind: made(said)})
    return (
        INT.pack(INT.size + len(inside) + len(message)) + INT.pack(len(inside)) + inside + message
    )


def message(metadata: Mapping[int, Value | str | Iterable[Value]], payload: bytes) -> bytes:
    """Make the message that follows a SEND or MESSAGE command."""
    packed = made(metadata)
    covered = INT.pack(len(packed)) + packed + payload
    return CHECKSUM + INT.pack(google_crc32c.value(covered)) + covered
