"""Sockets, as the wire wants them: bound within bounds, connected to somebody else; and who begins
to speak on one.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from harness.model.waiting import POLL_S
from harness.wire.messages import WireError
from harness.wire.protocol import Need
from harness.wire.rules import Direction
from harness.wire.streams import Stream

if TYPE_CHECKING:
    from harness.wire.protocol import Session

BACKLOG = 512
BIND_WITHIN_S = 5.0
CONNECT_WITHIN_S = 10.0
PEEK_BYTES = 512


async def bind(host: str, port: int) -> socket.socket:
    """Listen on a port, waiting a bounded time for it to become free.

    Raises:
        WireError: the port is not free in time.
    """
    deadline = asyncio.get_running_loop().time() + BIND_WITHIN_S
    while True:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setblocking(False)  # noqa: FBT003 - the standard library's signature
        try:
            sock.bind((host, port))
            sock.listen(BACKLOG)
        except OSError as error:
            sock.close()
            if asyncio.get_running_loop().time() >= deadline:
                raise WireError(f"cannot listen on {host}:{port}: {error.strerror}") from error
            await asyncio.sleep(POLL_S)
        else:
            return sock


async def connect(host: str, port: int) -> Stream:
    """Connect to a broker.

    Raises:
        OSError: the broker refuses, or does not answer in time.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setblocking(False)  # noqa: FBT003 - the standard library's signature
    try:
        async with asyncio.timeout(CONNECT_WITHIN_S):
            await asyncio.get_running_loop().sock_connect(sock, (host, port))
        _not_itself(sock)
    except BaseException:
        sock.close()
        raise
    tune(sock)
    return Stream(sock)


async def owner_of(stream: Stream, session: Session) -> str:
    """Return how the client calls itself in its first bytes, which are to be read again; empty
    where it does not.
    """
    data, ended = b"", False
    while not ended and len(data) < PEEK_BYTES:
        try:
            more = await stream.recv(PEEK_BYTES - len(data))
        except OSError:
            more = b""
        data, ended = data + more, not more
        if data and (
            not isinstance(session.feed(Direction.REQUEST, data), Need)
            or session.owner() is not None
        ):
            break
    stream.unread(data)
    return session.owner() or ""


def _not_itself(sock: socket.socket) -> None:
    """Refuse a connection that a port of the ephemeral range made to itself, as it can where nobody
    listens.
    """
    if sock.getsockname() == sock.getpeername():
        raise ConnectionRefusedError("nobody listens there (the port met itself)")


def tune(sock: socket.socket) -> None:
    """Make a socket that never blocks, and never waits for more to send."""
    sock.setblocking(False)  # noqa: FBT003 - the standard library's signature
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def port_of(client: socket.socket) -> int:
    """Return the port that a client's connection comes from; 0 where it is gone already."""
    try:
        port: int = client.getpeername()[1]
    except OSError:
        return 0
    return port
