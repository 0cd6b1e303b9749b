"""Connections to brokers whose listeners have neither encryption nor log-in, in versions that Kafka 2.3 and later speak."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, Final

from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest

from harness.audit.failures import NotOursToReadError

if TYPE_CHECKING:
    from collections.abc import Iterator

METADATA_VERSION: Final = 5
FETCH_BYTES: Final = 8 << 20
ROOM_BESIDE: Final = 1 << 16
ROOM_BEHIND: Final = 64
"""Zeros behind each answer, so that who reads on there leaves nothing."""
CORRELATION: Final = 4
"""Bytes of an answer's header, in the versions that are spoken here."""
PATIENCE_S: Final = 30.0
"""How long a partition may give nothing before it counts as not readable: longer than the election of a leader."""


class Link:
    """A connection to one broker, one request at a time (or one ahead)."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=PATIENCE_S)
        self._sent = 0
        self._room = bytearray(FETCH_BYTES + ROOM_BESIDE)  # new room for each answer would cost more than to read it
        self._number = bytearray(4)

    def close(self) -> None:
        """Leave."""
        self._socket.close()

    def send(self, request: Any) -> None:
        """Send a request; answers come in the order of requests."""
        self._sent += 1
        request.with_header(correlation_id=self._sent, client_id="lostack-audit")
        self._socket.sendall(request.encode(header=True, framed=True))

    def receive(self, kind: Any, version: int) -> Any:
        """Return the answer to the oldest request; what it holds is its own, for the room is used again."""
        room, end = self.answer()
        return kind.decode(memoryview(room)[CORRELATION:end], version=version)

    def answer(self) -> tuple[bytearray, int]:
        """Return the room with the answer to the oldest request, from CORRELATION on, and where it ends; till the next one."""
        self._fill(memoryview(self._number))
        size = int.from_bytes(self._number, "big")
        if size + ROOM_BEHIND > len(self._room):
            self._room = bytearray(size + ROOM_BEHIND)
        self._fill(memoryview(self._room)[:size])
        self._room[size : size + ROOM_BEHIND] = bytes(ROOM_BEHIND)
        return self._room, size

    def ask(self, request: Any, kind: Any, version: int) -> Any:
        """Send a request and return its answer."""
        self.send(request)
        return self.receive(kind, version)

    def _fill(self, view: memoryview) -> None:
        at = 0
        while at < len(view):
            got = self._socket.recv_into(view[at:])
            if not got:
                raise ConnectionError("the broker closed the connection")
            at += got


def servers_of(servers: str) -> Iterator[tuple[str, int]]:
    """Give host and port of each server of a list with commas."""
    for server in servers.split(","):
        host, _, port = server.rpartition(":")
        yield host.strip("[]"), int(port)


def need(link: Link, *spoken_here: tuple[Any, int]) -> None:
    """Ask a broker whether it speaks requests at these versions.

    Raises:
        NotOursToReadError: the broker does not.
    """
    spoken = link.ask(ApiVersionsRequest(version=0), ApiVersionsResponse, 0)
    versions = {api.api_key: (api.min_version, api.max_version) for api in spoken.api_keys}
    for kind, version in spoken_here:
        low, high = versions.get(kind.API_KEY, (0, -1))
        if not low <= version <= high:
            raise NotOursToReadError(f"the broker does not speak {kind.name} {version}")


def metadata_request(topic: str) -> Any:
    """Ask who leads the partitions of a topic; it is not created."""
    name = MetadataRequest.MetadataRequestTopic(version=METADATA_VERSION, name=topic)
    return MetadataRequest(version=METADATA_VERSION, topics=[name], allow_auto_topic_creation=False)
