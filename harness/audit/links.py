"""Connections to Kafka brokers whose listeners have neither encryption nor log-in, in versions that
Kafka 2.3 and later speak.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final, TypeVar

from harness.audit.failures import NotOursToReadError
from harness.audit.messages import AnswerReader, versions, versions_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from harness.audit.messages import Api, Request

T = TypeVar("T")

FETCH_BYTES: Final = 8 << 20
ROOM_BESIDE: Final = 1 << 16
ROOM_BEHIND: Final = 64
"""Zeros behind each answer, so that who reads on there leaves nothing."""
CORRELATION: Final = 4
"""Size of an answer's header in the versions used here, in bytes."""
PATIENCE_S: Final = 30.0
"""After how many seconds without records a partition counts as unreadable: longer than the election
of a leader.
"""


class Link:
    """A connection to one broker, one request at a time (or one ahead)."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=PATIENCE_S)
        self._sent = 0
        self._room = bytearray(
            FETCH_BYTES + ROOM_BESIDE
        )  # new room for each answer would cost more than to read it
        self._number = bytearray(4)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def send(self, request: Request) -> None:
        """Send a request; answers come in the order of requests."""
        self._sent += 1
        self._socket.sendall(request.framed(self._sent))

    def ask(self, request: Request, read: Callable[[AnswerReader], T]) -> T:
        """Send a request and return its answer, as ``read`` reads it.

        Raises:
            ConnectionError: the answer cannot be read.
        """
        self.send(request)
        room, end = self.answer()
        return read(AnswerReader(room, CORRELATION, end))

    def answer(self) -> tuple[bytearray, int]:
        """Return a buffer with the answer to the oldest request (from CORRELATION on), and its end;
        valid until the next call.
        """
        self._fill(memoryview(self._number))
        size = int.from_bytes(self._number, "big")
        if size + ROOM_BEHIND > len(self._room):
            self._room = bytearray(size + ROOM_BEHIND)
        self._fill(memoryview(self._room)[:size])
        self._room[size : size + ROOM_BEHIND] = bytes(ROOM_BEHIND)
        return self._room, size

    def _fill(self, view: memoryview) -> None:
        at = 0
        while at < len(view):
            got = self._socket.recv_into(view[at:])
            if not got:
                raise ConnectionError("the broker closed the connection")
            at += got


def servers_of(servers: str) -> Iterator[tuple[str, int]]:
    """Yield host and port of each server of a list separated by commas."""
    for server in servers.split(","):
        host, _, port = server.rpartition(":")
        yield host.strip("[]"), int(port)


def need(link: Link, *spoken_here: Api) -> None:
    """Check that a broker speaks these requests in these versions.

    Raises:
        NotOursToReadError: the broker does not.
    """
    spoken = link.ask(versions_request(), versions)
    for api in spoken_here:
        low, high = spoken.get(api.key, (0, -1))
        if not low <= api.version <= high:
            raise NotOursToReadError(f"the broker does not speak {api.name} {api.version}")
