"""Answers to fetches, read in place: they have some megabytes, which would be slow to copy."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from harness.audit.links import CORRELATION

if TYPE_CHECKING:
    from harness.audit.places import Octets

HEAD: Final = struct.Struct(">ihii")
"""Throttle time, error, session, number of topics."""
PART: Final = struct.Struct(">ihqqqi")
"""Partition, error, high watermark, last stable offset, start of the log, number of aborted
transactions.
"""
ABORTED: Final = struct.Struct(">qq")
REST: Final = struct.Struct(">ii")
"""Preferred read replica, length of the records."""
COUNT: Final = struct.Struct(">i")
LENGTH: Final = struct.Struct(">h")


class Fetched(NamedTuple):
    """The result of a fetch of one partition: an error, or records, which are in ``data`` from
    ``at`` to ``end``.

    ``aborted`` are (first offset, producer id) of aborted transactions.
    """

    error: int
    aborted: list[tuple[int, int]]
    data: Octets
    at: int
    end: int


def fetched_part(data: Octets, end: int) -> Fetched:
    """Read the answer to a fetch of one partition; ``data`` has it up to ``end``.

    >>> fetched_part(bytes(4) + HEAD.pack(0, 6, 0, 0), 18).error
    6

    Raises:
        ConnectionError: it is no such answer.
    """
    try:
        return _part(data, end)
    except struct.error:
        raise ConnectionError("the broker gave an answer that cannot be read") from None


def _part(data: Octets, end: int) -> Fetched:
    _, error, _, topics = HEAD.unpack_from(data, CORRELATION)
    at = CORRELATION + HEAD.size
    if error or topics <= 0:
        return Fetched(error, [], data, end, end)
    at += LENGTH.size + LENGTH.unpack_from(data, at)[0]
    if COUNT.unpack_from(data, at)[0] <= 0:
        return Fetched(0, [], data, end, end)
    at += COUNT.size
    producers: list[tuple[int, int]] = []
    _, error, _, _, _, aborted = PART.unpack_from(data, at)
    at += PART.size
    for _ in range(aborted):
        producer, first = ABORTED.unpack_from(data, at)
        producers.append((first, producer))
        at += ABORTED.size
    _, size = REST.unpack_from(data, at)
    at += REST.size
    if at + max(size, 0) > end:
        raise ConnectionError(
            "the broker gave an answer that is shorter than its length field says"
        )
    return Fetched(error, producers, data, at, at + max(size, 0))
