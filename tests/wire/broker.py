"""A scripted stand-in for a broker, and a bare client: blocking sockets, so that tests read from
top to bottom.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self, SupportsIndex

from harness.model.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.wire.tls import TlsSocket

WITHIN_S = 5.0


def framed(payload: bytes) -> bytes:
    """Put the length in front."""
    return struct.pack(">i", len(payload)) + payload


def request(
    api: SupportsIndex,
    corr: int,
    client: str | None = "k.producer.1",
    body: bytes = b"",
    version: int = 0,
) -> bytes:
    """Make a request frame of any API."""
    name = (
        struct.pack(">h", -1)
        if client is None
        else struct.pack(">h", len(client.encode())) + client.encode()
    )
    return framed(struct.pack(">hhi", api, version, corr) + name + body)


def response(corr: int, body: bytes = b"") -> bytes:
    """Make a response frame."""
    return framed(struct.pack(">i", corr) + body)


def corr_of(frame: bytes) -> int:
    """Return the correlation id of a framed request."""
    return int(struct.unpack_from(">i", frame, 8)[0])


def read_exactly(sock: socket.socket | TlsSocket, count: int) -> bytes:
    """Read so many bytes; raises EOFError where the stream ends before."""
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            raise EOFError(data)
        data += more
    return data


def read_frame(sock: socket.socket) -> bytes:
    """Read one frame, length and all."""
    head = read_exactly(sock, 4)
    return head + read_exactly(sock, struct.unpack(">i", head)[0])


@dataclass
class Peer:
    """One accepted connection of the scripted broker."""

    sock: socket.socket
    frames: list[bytes] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)


class ScriptedBroker:
    """Accepts connections, keeps every frame, answers each with ``answer(frame)``
    (None: nothing).
    """

    def __init__(
        self, answer: Callable[[bytes], bytes | None] | None = None, *, raw: bool = False
    ) -> None:
        self.answer = answer or (lambda frame: response(corr_of(frame), b"answer"))
        self.peers: list[Peer] = []
        self.new: queue.Queue[Peer] = queue.Queue()
        self._raw = raw
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                peer = Peer(sock)
                self.peers.append(peer)
                self.new.put(peer)
                if not self._raw:
                    threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: Peer) -> None:
        with contextlib.suppress(OSError, EOFError):
            while True:
                frame = read_frame(peer.sock)
                peer.frames.append(frame)
                reply = self.answer(frame)
                if reply is not None:
                    peer.sock.sendall(reply)
        peer.ended.set()
        with contextlib.suppress(OSError):
            peer.sock.close()

    @property
    def frames(self) -> list[bytes]:
        """All frames of all connections, per connection in order."""
        return [frame for peer in self.peers for frame in peer.frames]

    def corrs(self) -> list[int]:
        """Correlation ids of all frames."""
        return [corr_of(frame) for frame in self.frames]

    def wait_corrs(self, *corrs: int) -> None:
        """Wait until exactly these requests have come."""
        wait_until(
            lambda: self.corrs() == list(corrs), within_s=WITHIN_S, because=f"{corrs} at the broker"
        )

    def close(self) -> None:
        """Die: listener and connections."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for peer in self.peers:
            with contextlib.suppress(OSError):
                peer.sock.shutdown(socket.SHUT_RDWR)
            peer.sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Client:
    """A bare client: sends frames, reads frames."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, *frames: bytes) -> None:
        """Send bytes."""
        self.sock.sendall(b"".join(frames))

    def read(self) -> bytes:
        """Read one frame."""
        return read_frame(self.sock)

    def ask(self, frame: bytes) -> bytes:
        """Send a request and read its answer."""
        self.send(frame)
        return self.read()

    def ended(self) -> bool:
        """Whether the other side has closed (waits for it)."""
        try:
            return self.sock.recv(1) == b""
        except ConnectionError:
            return True

    def silent(self, within_s: float = 0.15) -> bool:
        """Whether nothing comes for a while."""
        self.sock.settimeout(within_s)
        try:
            self.sock.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return True
        finally:
            self.sock.settimeout(WITHIN_S)
        return False

    def close(self) -> None:
        """Leave."""
        self.sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
