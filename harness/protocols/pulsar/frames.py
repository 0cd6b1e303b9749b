"""Frames: a command, and of SEND and MESSAGE the message behind it. Pure: bytes in, values out.

A frame is the size of what follows (int32), the size of its command (int32), and the command: a ``BaseCommand``, whose first
field is its type, and whose field of that number is what it says. Behind a SEND or MESSAGE stand, where there is a checksum, two
bytes 0x0e01 and a CRC32C of all that follows; then the size of the metadata (int32), the metadata, and the payload. A broker may
put metadata of its own before all that, behind two bytes 0x0e02.
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
"""Fifty times what a broker takes by default, and less than the first bytes of TLS would be."""
MOST_COMMAND_BYTES: Final = 1 << 20
MOST_METADATA_BYTES: Final = 1 << 20
CHECKSUM: Final = b"\x0e\x01"
BROKERS_OWN: Final = b"\x0e\x02"
TYPE: Final = 1


class NotAFrameError(ValueError):
    """The bytes at this place are no frame."""


def _int(data: Data, at: int) -> int:
    found: int = INT.unpack_from(data, at)[0]
    return found


@dataclass(frozen=True, slots=True)
class Head:
    """A command: the number of its type, what it says, how large its frame is, and where in that the command ends."""

    type: int
    said: Message
    size: int
    end: int


def head(data: Data) -> Head | int:
    """Read what a frame begins with, or return how many bytes that takes.

    Raises:
        NotAFrameError: no frame begins so.
    """
    if len(data) < SIZES:
        return SIZES
    total, size = _int(data, 0), _int(data, INT.size)
    if not INT.size <= total <= MOST_BYTES or not 0 < size <= min(total - INT.size, MOST_COMMAND_BYTES):
        raise NotAFrameError(f"a command of {size} bytes in a frame of {total}")
    if len(data) < SIZES + size:
        return SIZES + size
    try:
        command = Message(bytes(data[SIZES : SIZES + size]))
        kind = command.number(TYPE)
        return Head(kind, command.inner(kind) if kind > TYPE else Message(b""), INT.size + total, SIZES + size)
    except MalformedError as error:
        raise NotAFrameError(f"a command with {error}") from None


@dataclass(frozen=True, slots=True)
class Outline:
    """Where in its frame a message has its parts: its checksum (none: it has none), what that is of, its payload."""

    metadata: Message
    checksum: int | None
    covered: int
    payload: int


def outline(data: Data, at: int, size: int) -> Outline | int:
    """Read the metadata of a message that begins at ``at`` in a frame of ``size`` bytes, or return how many of them that takes.

    Raises:
        NotAFrameError: they cannot be read.
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
    """Say whether the checksum of a message, ``data`` its whole frame, is right; of one that has none it is."""
    return outlined.checksum is None or google_crc32c.value(data[outlined.covered :]) == outlined.checksum


def command(kind: int, said: Mapping[int, Value | str | Iterable[Value]], message: bytes = b"") -> bytes:
    r"""Make a frame.

    >>> command(18, {})
    b'\x00\x00\x00\t\x00\x00\x00\x05\x08\x12\x92\x01\x00'
    """
    inside = made({TYPE: kind, kind: made(said)})
    return INT.pack(INT.size + len(inside) + len(message)) + INT.pack(len(inside)) + inside + message


def message(metadata: Mapping[int, Value | str | Iterable[Value]], payload: bytes) -> bytes:
    """Make what stands behind a SEND or a MESSAGE."""
    packed = made(metadata)
    covered = INT.pack(len(packed)) + packed + payload
    return CHECKSUM + INT.pack(google_crc32c.value(covered)) + covered
