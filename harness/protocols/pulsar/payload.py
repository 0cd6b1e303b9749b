"""Read a payload: one message or a batch of messages, compressed or not. Pure."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import cramjam
import lz4.block
import zstandard

from harness.protocols.pulsar.protobuf import MalformedError, Message, varint

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_BYTES: Final = 64 << 20
"""How many decompressed bytes one payload may have."""
PROPERTIES, COMPRESSION, PLAIN_SIZE, IN_BATCH, KEYS, ALGORITHM = 4, 8, 9, 11, 13, 14
"""Fields of the metadata of a message."""
CHUNK, CHUNKS, UUID, IN_ALL = 29, 27, 26, 28
"""Which part of how many of which message, and how many bytes all of them are."""
TRANSACTION = (22, 23)
"""The two halves of the id of its transaction."""
OWN_PROPERTIES, OWN_SIZE = 1, 3
"""Fields of what stands before each message of a batch."""
_SIZE: Final = struct.Struct(">I")


class NotReadError(Exception):
    """A payload cannot be read. The message is one line."""


@dataclass(frozen=True, slots=True)
class Single:
    """A single message with its properties."""

    value: bytes
    properties: tuple[tuple[str, bytes], ...]


def transaction_of(metadata: Message, fields: tuple[int, int] = TRANSACTION) -> str | None:
    """Return the id of a transaction, ``most:least``; ``None`` if there is none.

    Raises:
        MalformedError: the metadata cannot be read.
    """
    least, most = fields
    return (
        f"{metadata.number(most)}:{metadata.number(least)}"
        if least in metadata or most in metadata
        else None
    )


def is_chunk(metadata: Message) -> bool:
    """Return whether a message is a chunk: one part of a larger message."""
    return metadata.number(CHUNKS) > 1


def is_last(metadata: Message) -> bool:
    """Return whether a message is the last chunk, or not a chunk.

    Raises:
        MalformedError: the metadata cannot be read.
    """
    return not is_chunk(metadata) or metadata.number(CHUNK) >= metadata.number(CHUNKS) - 1


def is_encrypted(metadata: Message) -> bool:
    """Return whether the payload is encrypted, so that it cannot be read without a key."""
    return KEYS in metadata or ALGORITHM in metadata


def singles(metadata: Message, payload: bytes) -> tuple[Single, ...]:
    """Return the messages of a whole payload.

    Raises:
        NotReadError: the payload cannot be read.
    """
    try:
        if is_encrypted(metadata):
            raise NotReadError("an encrypted payload cannot be read without its key")
        plain = inflated(metadata.number(COMPRESSION), payload, metadata.number(PLAIN_SIZE))
        if IN_BATCH not in metadata:
            return (Single(plain, properties(metadata, PROPERTIES)),)
        return tuple(batched(plain, metadata.number(IN_BATCH)))
    except MalformedError as error:
        raise NotReadError(f"a payload with {error}") from None


def properties(metadata: Message, field: int) -> tuple[tuple[str, bytes], ...]:
    """Return the properties of a message.

    Raises:
        MalformedError: the metadata cannot be read.
    """
    return tuple((each.text(1), each.raw(2)) for each in metadata.inners(field))


def batched(plain: bytes, count: int) -> list[Single]:
    """Return the messages of a batch of ``count`` messages.

    Raises:
        NotReadError: the batch cannot be read.
    """
    at = 0
    found: list[Single] = []
    for _ in range(count):
        own = at + _SIZE.size
        if own > len(plain):
            raise NotReadError(f"a batch of {count} messages that ends behind {len(found)}")
        end = own + _SIZE.unpack_from(plain, at)[0]
        try:
            said = Message(plain[own:end])
            at = end + said.number(OWN_SIZE)
            found.append(Single(plain[end:at], properties(said, OWN_PROPERTIES)))
        except MalformedError as error:
            raise NotReadError(f"a batch with {error}") from None
        if at > len(plain):
            raise NotReadError(f"a batch of {count} messages that ends in the {len(found)}th")
    return found


def inflated(codec: int, data: bytes, size: int) -> bytes:
    """Decompress ``data`` to ``size`` bytes.

    Raises:
        NotReadError: the data cannot be decompressed, or has another size.
    """
    if codec == 0:
        return data
    if codec not in _CODECS:
        raise NotReadError(f"a compression {codec} that is not known")
    if size > MOST_BYTES:
        raise NotReadError(f"{size} bytes compressed: more than {MOST_BYTES}")
    try:
        found = _CODECS[codec](data, size)
    except (
        ValueError,
        zlib.error,
        zstandard.ZstdError,
        lz4.block.LZ4BlockError,
        cramjam.DecompressionError,
    ) as error:
        raise NotReadError(
            f"a payload that cannot be decompressed: {type(error).__name__}"
        ) from None
    if len(found) != size:
        raise NotReadError(f"a payload that says {size} bytes, decompressed, and is {len(found)}")
    return found


def _lz4(data: bytes, size: int) -> bytes:
    found: bytes = lz4.block.decompress(data, uncompressed_size=size)
    return found


def _zlib(data: bytes, size: int) -> bytes:
    return zlib.decompressobj().decompress(data, size + 1)


def _zstd(data: bytes, size: int) -> bytes:
    with zstandard.ZstdDecompressor().stream_reader(data) as stream:
        return stream.read(size + 1)


def _snappy(data: bytes, size: int) -> bytes:
    try:
        says, _ = varint(data, 0)
    except MalformedError as error:
        raise ValueError(str(error)) from None
    if says != size:
        raise ValueError(f"{says} bytes")
    return bytes(cramjam.snappy.decompress_raw(data))


_CODECS: Final[dict[int, Callable[[bytes, int], bytes]]] = {1: _lz4, 2: _zlib, 3: _zstd, 4: _snappy}
