"""The bytes of five Kafka requests and their answers, in versions that Kafka 2.3 and later speak.

A client's library takes longer to import than a small topic takes to read. Answers to fetches are
read in :mod:`~harness.audit.answers`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

T = TypeVar("T")

CLIENT: Final = "lostack-audit"
COMMITTED, UNCOMMITTED = 1, 0
NOBODY: Final = -1
"""The replica that asks: none, but a consumer."""
TOPIC: Final = 2
"""The kind of a resource with a configuration."""
NONE: Final = -1


class Api(NamedTuple):
    """The key, version and name of a request."""

    key: int
    version: int
    name: str


FETCH: Final = Api(1, 11, "FetchRequest")
"""Version 10 is the first that knows every compression, 11 the last that Kafka 2.3 knows."""
LIST_OFFSETS: Final = Api(2, 3, "ListOffsetsRequest")
METADATA: Final = Api(3, 5, "MetadataRequest")
API_VERSIONS: Final = Api(18, 0, "ApiVersionsRequest")
DESCRIBE_CONFIGS: Final = Api(32, 1, "DescribeConfigsRequest")


class Request(NamedTuple):
    """A request without its header."""

    api: Api
    body: bytes

    def framed(self, number: int) -> bytes:
        """Return the bytes to send, with their length in front. ``number``: the correlation id,
        which the answer repeats.
        """
        header = struct.pack(">hhi", self.api.key, self.api.version, number) + _text(CLIENT)
        return struct.pack(">i", len(header) + len(self.body)) + header + self.body


class Leader(NamedTuple):
    """A partition, and the number of the broker that leads it (-1: none)."""

    partition: int
    broker: int


class Metadata(NamedTuple):
    """Host and port of each broker by its number; the error of the topic that was asked for (0:
    none) and its partitions.
    """

    brokers: Mapping[int, tuple[str, int]]
    error: int
    partitions: tuple[Leader, ...]


class Offset(NamedTuple):
    """The offset of one partition in an answer, or its error."""

    partition: int
    error: int
    offset: int


class AnswerReader:
    """Reads an answer, one value after another."""

    def __init__(self, data: bytes | bytearray | memoryview, at: int, end: int) -> None:
        self._data = memoryview(data)[:end]
        self._at = at

    def taken(self, form: str) -> tuple[int, ...]:
        """Return the next numbers, as :mod:`struct` names them.

        Raises:
            ConnectionError: the answer ends before.
        """
        try:
            values = struct.unpack_from(f">{form}", self._data, self._at)
        except struct.error:
            raise ConnectionError("the broker gave an answer that cannot be read") from None
        self._at += struct.calcsize(f">{form}")
        return values

    def text(self) -> str:
        """Return the next text; one that is null is empty.

        Raises:
            ConnectionError: the answer ends before.
        """
        (length,) = self.taken("h")
        end = self._at + max(length, 0)
        if end > len(self._data):
            raise ConnectionError(
                "the broker gave an answer that is shorter than its length field says"
            )
        self._at, begin = end, self._at
        return bytes(self._data[begin:end]).decode(errors="replace")

    def each(self, read: Callable[[AnswerReader], T]) -> list[T]:
        """Return the next values of an array, which begins with their number.

        Raises:
            ConnectionError: the answer ends before.
        """
        (count,) = self.taken("i")
        return [read(self) for _ in range(count)]


def versions_request() -> Request:
    """Return the request for the versions that a broker speaks."""
    return Request(API_VERSIONS, b"")


def versions(words: AnswerReader) -> dict[int, tuple[int, int]]:
    """Read the oldest and the newest version of each request, by its key.

    Raises:
        ConnectionError: the answer ends before.
    """
    words.taken("h")
    known = words.each(lambda each: each.taken("hhh"))
    return {key: (low, high) for key, low, high in known}


def metadata_request(topic: str) -> Request:
    """Return the request for the leaders of a topic's partitions. It does not create the topic."""
    return Request(METADATA, _listed([_text(topic)]) + struct.pack(">?", False))  # noqa: FBT003 - a byte


def metadata(words: AnswerReader) -> Metadata:
    """Read the brokers, and the leaders of the topic's partitions.

    Raises:
        ConnectionError: the answer ends before.
    """
    words.taken("i")
    brokers = dict(words.each(_broker))
    words.text()
    words.taken("i")
    [(error, partitions)] = words.each(_topic) or [(0, [])]
    return Metadata(brokers, error, tuple(partitions))


def _broker(words: AnswerReader) -> tuple[int, tuple[str, int]]:
    (number,) = words.taken("i")
    host = words.text()
    (port,) = words.taken("i")
    words.text()
    return number, (host, port)


def _topic(words: AnswerReader) -> tuple[int, list[Leader]]:
    (error,) = words.taken("h")
    words.text()
    words.taken("b")
    return error, words.each(_leader)


def _leader(words: AnswerReader) -> Leader:
    _, partition, leader = words.taken("hii")
    for _ in ("replicas", "in sync", "offline"):
        words.each(lambda each: each.taken("i"))
    return Leader(partition, leader)


def offsets_request(topic: str, partitions: Iterable[int], *, time: int, isolation: int) -> Request:
    """Return the request for an offset of each partition: the first (``time`` -2), or the end for
    this isolation (-1).
    """
    parts = _listed([struct.pack(">iq", partition, time) for partition in partitions])
    return Request(
        LIST_OFFSETS, struct.pack(">ib", NOBODY, isolation) + _listed([_text(topic) + parts])
    )


def offsets(words: AnswerReader) -> list[Offset]:
    """Read the offset of each partition.

    Raises:
        ConnectionError: the answer ends before.
    """
    words.taken("i")
    return [offset for topic in words.each(_offsets) for offset in topic]


def _offsets(words: AnswerReader) -> list[Offset]:
    words.text()
    return [
        Offset(partition, error, offset)
        for partition, error, _, offset in words.each(lambda each: each.taken("ihqq"))
    ]


def config_request(topic: str, name: str) -> Request:
    """Return the request for one setting of a topic."""
    resource = struct.pack(">b", TOPIC) + _text(topic) + _listed([_text(name)])
    return Request(DESCRIBE_CONFIGS, _listed([resource]) + struct.pack(">?", False))  # noqa: FBT003 - a byte


def config_values(words: AnswerReader) -> list[str]:
    """Read the values of the settings; none if there is no permission to read them.

    Raises:
        ConnectionError: the answer ends before.
    """
    words.taken("i")
    return [value for resource in words.each(_resource) for value in resource]


def _resource(words: AnswerReader) -> list[str]:
    words.taken("h")
    words.text()
    words.taken("b")
    words.text()
    return words.each(_setting)


def _setting(words: AnswerReader) -> str:
    words.text()
    value = words.text()
    words.taken("bbb")
    words.each(_synonym)
    return value


def _synonym(words: AnswerReader) -> None:
    words.text()
    words.text()
    words.taken("b")


def fetch_request(topic: str, partition: int, at: int, *, wait_ms: int, most_bytes: int) -> Request:
    """Return the request for committed records of one partition from an offset on, without a fetch
    session.
    """
    part = struct.pack(">iiqqi", partition, NONE, at, NONE, most_bytes)
    session = struct.pack(">ii", 0, NONE)
    head = struct.pack(">iiiib", NOBODY, wait_ms, 1, most_bytes, COMMITTED)
    forgotten, rack = _listed([]), _text("")
    return Request(
        FETCH, head + session + _listed([_text(topic) + _listed([part])]) + forgotten + rack
    )


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _listed(parts: Sequence[bytes]) -> bytes:
    return struct.pack(">i", len(parts)) + b"".join(parts)
