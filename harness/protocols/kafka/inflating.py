"""Find the decompressed size of record batches, piece by piece, because a few kB of a frame may
decompress to gigabytes.

kafka-python decompresses a whole batch without a limit. So batches that are too large are not
passed to it.
"""

from __future__ import annotations

import gzip
import io
import struct
from typing import IO, TYPE_CHECKING, Final

import lz4.frame
import zstandard

from harness.protocols.kafka.frames import varint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOST_BYTES: Final = 64 << 20
"""How many decompressed bytes all batches of one frame may have: four times the limit for an
uncompressed frame.
"""
PIECE_BYTES: Final = 1 << 20
HEADER: Final = struct.Struct(">qiibIh")
"""Base offset, length of the rest, leader epoch, magic, CRC, attributes."""
LENGTH_ENDS: Final = 12
"""Bytes of a batch that its length does not count."""
RECORDS_AT: Final = 61
NEW_FORMAT: Final = 2
OLD_ATTRIBUTES_AT: Final = 17
CODEC: Final = 0x07
XERIAL: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER_BYTES: Final = 16


class NotReadError(Exception):
    """Batches are too large when decompressed, or have a format whose size cannot be limited. The
    message is one line.
    """


class Room:
    """How many decompressed bytes the batches of one frame may still have."""

    def __init__(self) -> None:
        self._left = MOST_BYTES

    def take(self, data: bytes | bytearray | memoryview) -> None:
        """Subtract the decompressed size of the record batches of one partition.

        Raises:
            NotReadError: there is no room left.
        """
        for codec, body in _compressed(memoryview(data)):
            for size in _SIZES[codec](body):
                self._left -= size
                if self._left < 0:
                    raise NotReadError(
                        f"record batches of more than {MOST_BYTES} bytes, decompressed"
                    )


def _compressed(data: memoryview) -> Iterator[tuple[int, bytes]]:
    """Yield codec and compressed records of each whole compressed batch. Unknown codecs are left to
    the reader.
    """
    at = 0
    while at + HEADER.size <= len(data):
        _, length, _, magic, _, attributes = HEADER.unpack_from(data, at)
        end = at + LENGTH_ENDS + length
        if length < 0 or end > len(data):
            return
        codec = attributes & CODEC
        if magic < NEW_FORMAT:
            if data[at + OLD_ATTRIBUTES_AT] & CODEC:
                raise NotReadError("compressed records of a format that Kafka 4 has no longer")
        elif codec in _SIZES:
            yield codec, bytes(data[at + RECORDS_AT : end])
        at = end


def _pieces(stream: IO[bytes] | gzip.GzipFile) -> Iterator[int]:
    while piece := stream.read(PIECE_BYTES):
        yield len(piece)


def _gzip(body: bytes) -> Iterator[int]:
    with gzip.GzipFile(fileobj=io.BytesIO(body)) as stream:
        yield from _pieces(stream)


def _snappy(body: bytes) -> Iterator[int]:
    """A block says first how large it is; the Java client writes several, each with its length,
    behind a header.
    """
    if not body.startswith(XERIAL):
        yield varint(body, 0)[0]
        return
    at = XERIAL_HEADER_BYTES
    while at + 4 < len(body):
        length = int.from_bytes(body[at : at + 4], "big", signed=True)
        yield varint(body, at + 4)[0]
        at += 4 + max(length, 0)


def _lz4(body: bytes) -> Iterator[int]:
    with lz4.frame.LZ4FrameFile(io.BytesIO(body)) as stream:
        yield from _pieces(stream)


def _zstd(body: bytes) -> Iterator[int]:
    with zstandard.ZstdDecompressor().stream_reader(
        io.BytesIO(body), read_across_frames=True
    ) as stream:
        yield from _pieces(stream)


_SIZES: Final[dict[int, Callable[[bytes], Iterator[int]]]] = {
    1: _gzip,
    2: _snappy,
    3: _lz4,
    4: _zstd,
}
