"""Frames: finding them in a byte stream, and their headers. Pure: bytes in, values out.

A frame is an int32 length and so many bytes. A request begins with int16 API, int16 version, int32
correlation id and a nullable string client id; a response begins with the int32 correlation id.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

LENGTH_BYTES = 4
MAX_FRAME_BYTES = 1 << 28
"""The largest size of a frame: more than brokers accept (``socket.request.max.bytes`` is 100 MB by
default).

It is less than the size that the first bytes of a TLS record (0x1603) would mean, which is at least
369 MB.
"""
MAX_API = 1023
MAX_VERSION = 127
MAX_CLIENT_BYTES = 0x7FFF
_FIXED = struct.Struct(">hhih")
_SHORT = struct.Struct(">hhi")
_NO_CLIENT_BYTES = _SHORT.size
MIN_REQUEST_BYTES = _NO_CLIENT_BYTES
MIN_RESPONSE_BYTES = 4
FLEXIBLE_PRODUCE = 9
FIRST_TRANSACTIONAL_PRODUCE = 3
ACKS_PREFIX_BYTES = 2 * MAX_CLIENT_BYTES + 4096
"""The bytes of a Produce request (client id, header tags, transactional id) within which its acks
must come.
"""


ACKS_USUALLY_WITHIN_BYTES = 256
"""Behind the client id; more only where a transactional id is long."""
FIRST_NAMED_MEMBER = 5
"""From this version of JoinGroup on a member can name itself."""
FLEXIBLE_JOIN = 6
FIRST_NAMED_SOFTWARE = 3
"""The first version of ApiVersions in which a library says its name and version."""


class NotAFrameError(ValueError):
    """The bytes at this place are not a frame of Kafka's protocol."""


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The header of a request. ``head_bytes`` is where the client id ends (header tags follow in
    flexible versions).
    """

    size: int
    api: int
    version: int
    corr: int
    client: str | None
    head_bytes: int


def frame_size(data: bytes | bytearray | memoryview, *, least: int) -> int:
    """Return the length in the first four bytes.

    >>> frame_size(bytes([0, 0, 0, 9]), least=8)
    9

    Raises:
        NotAFrameError: no frame has such a length.
    """
    size = int.from_bytes(data[:LENGTH_BYTES], "big", signed=True)
    if not least <= size <= MAX_FRAME_BYTES:
        raise NotAFrameError(f"a frame of {size} bytes")
    return size


def request_prefix_bytes(size: int) -> int:
    """Return how many bytes after the length are needed to know the header's length."""
    return min(size, _FIXED.size)


def request_head_bytes(prefix: bytes | bytearray | memoryview, size: int) -> int:
    """Return where the client id ends; ``prefix`` holds :func:`request_prefix_bytes` bytes.

    Raises:
        NotAFrameError: the API, its version or the length of the client id is impossible.
    """
    api, version, _ = _SHORT.unpack_from(prefix)
    if not 0 <= api <= MAX_API or not 0 <= version <= MAX_VERSION:
        raise NotAFrameError(f"API {api} version {version}")
    if size < _FIXED.size:
        return _NO_CLIENT_BYTES
    length: int = _FIXED.unpack_from(prefix)[3]
    if length < -1 or _FIXED.size + length > size:
        raise NotAFrameError(f"a client id of {length} bytes")
    return _FIXED.size + max(length, 0)


def request_head(head: bytes | bytearray | memoryview, size: int) -> RequestHead:
    """Parse a request header from its :func:`request_head_bytes` bytes.

    Raises:
        NotAFrameError: the client id is not UTF-8.
    """
    api, version, corr = _SHORT.unpack_from(head)
    if len(head) < _FIXED.size:
        return RequestHead(size, api, version, corr, None, len(head))
    length: int = _FIXED.unpack_from(head)[3]
    if length < 0:
        return RequestHead(size, api, version, corr, None, len(head))
    try:
        client = bytes(head[_FIXED.size :]).decode()
    except UnicodeDecodeError as error:
        raise NotAFrameError("a client id that is no UTF-8") from error
    return RequestHead(size, api, version, corr, client, len(head))


def correlation(head: bytes | bytearray | memoryview) -> int:
    """Return the correlation id of a response."""
    return int.from_bytes(head[:4], "big", signed=True)


def produce_acks(payload: bytes | bytearray | memoryview, head: RequestHead) -> int | None:
    """Return ``acks`` of a Produce request from its first bytes; ``None`` if they do not show it.

    With acks=0 there is no response, so this must be known for every Produce request, even if it is
    not decoded.
    """
    at = head.head_bytes
    try:
        if head.version >= FLEXIBLE_PRODUCE:
            at = _skip_tags(payload, at)
            length, at = varint(payload, at)
            at += max(length - 1, 0)
        elif head.version >= FIRST_TRANSACTIONAL_PRODUCE:
            length = int.from_bytes(payload[at : at + 2], "big", signed=True)
            at += 2 + max(length, 0)
    except IndexError:
        return None
    acks = payload[at : at + 2]
    return int.from_bytes(acks, "big", signed=True) if len(acks) == 2 else None  # noqa: PLR2004 - an int16


def software(payload: bytes | bytearray | memoryview, head: RequestHead) -> str | None:
    """Return the client library's name and version from an ApiVersions request; ``None`` if it has
    none.
    """
    if head.version < FIRST_NAMED_SOFTWARE:
        return None
    try:
        at = _skip_tags(payload, head.head_bytes)
        words = []
        for _ in range(2):
            length, at = varint(payload, at)
            words.append(bytes(payload[at : at + length - 1]).decode())
            at += length - 1
    except (IndexError, UnicodeDecodeError):
        return None
    return " ".join(filter(None, words)) or None


def names_itself(
    payload: bytes | bytearray | memoryview, head: RequestHead, *, joins: bool
) -> bool:
    """Say whether a member of a group has a name of its own, that outlives its process
    (``group.instance.id``).

    ``joins``: it is a JoinGroup; else a ConsumerGroupHeartbeat.
    """
    if joins and head.version < FIRST_NAMED_MEMBER:
        return False
    compact = not joins or head.version >= FLEXIBLE_JOIN
    try:
        at = _skip_tags(payload, head.head_bytes) if compact else head.head_bytes
        _, at = _text(payload, at, compact=compact)  # the group
        at += 8 if joins else 0  # its time-outs
        _, at = _text(payload, at, compact=compact)  # the member's id
        at += 0 if joins else 4  # its epoch
        size, _ = _text(payload, at, compact=compact)
    except IndexError:
        return False
    return size > 0


def session_ms(payload: bytes | bytearray | memoryview, head: RequestHead) -> int | None:
    """Return the session time-out that a JoinGroup request names; ``None`` if it cannot be read."""
    compact = head.version >= FLEXIBLE_JOIN
    try:
        at = _skip_tags(payload, head.head_bytes) if compact else head.head_bytes
        _, at = _text(payload, at, compact=compact)  # the group
    except IndexError:
        return None
    found = payload[at : at + 4]
    return int.from_bytes(found, "big", signed=True) if len(found) == 4 else None  # noqa: PLR2004 - an int32


def _text(data: bytes | bytearray | memoryview, at: int, *, compact: bool) -> tuple[int, int]:
    """Return how long a text is at this place (null: -1), and where it ends."""
    size, at = (
        varint(data, at)
        if compact
        else (int.from_bytes(data[at : at + 2], "big", signed=True) + 1, at + 2)
    )
    return size - 1, at + max(size - 1, 0)


def varint(data: bytes | bytearray | memoryview, at: int) -> tuple[int, int]:
    """Return the unsigned number at ``at``, and the offset of its end.

    Raises:
        IndexError: the number is too long, or does not end.
    """
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the continuation bit
            return value, at
        shift += 7
        if shift > 28:  # noqa: PLR2004 - five bytes at most
            raise IndexError


def _skip_tags(data: bytes | bytearray | memoryview, at: int) -> int:
    count, at = varint(data, at)
    for _ in range(min(count, len(data))):
        _, at = varint(data, at)
        length, at = varint(data, at)
        at += length
    return at
