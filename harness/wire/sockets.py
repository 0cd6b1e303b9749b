"""Sockets of the wire: bound after a bounded wait, never connected to themselves; and how a client
calls itself.
"""

from __future__ import annotations

import asyncio
import ipaddress
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
    """Connect to a broker, at the first of its addresses (IPv4 ones first) at which it answers.

    Raises:
        OSError: the broker refuses, or does not answer in time, or this is no address.
    """
    async with asyncio.timeout(CONNECT_WITHIN_S):
        refused: OSError = ConnectionRefusedError(f"{host}:{port} has no address")
        for family, address in await _addresses(host, port):
            try:
                return await _connect(family, address)
            except TimeoutError:
                raise
            except OSError as error:
                refused = error
        raise refused


async def _addresses(host: str, port: int) -> list[tuple[socket.AddressFamily, tuple[object, ...]]]:
    """Return the IP address of a host. An IPv4 address is returned unchanged.

    Raises:
        OSError: there is no such host or port.
    """
    if not 0 < port < 1 << 16:
        raise OSError(f"{host}:{port} is no address: there is no such port")
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        pass
    else:
        return [(socket.AF_INET, (host, port))]
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except ValueError as error:  # a label that is empty or too long, or a zero byte
        raise OSError(f"{host!r} is no name of a host") from error
    known = [(each[0], each[4]) for each in found]
    return sorted(known, key=lambda each: each[0] != socket.AF_INET)


async def _connect(family: socket.AddressFamily, address: tuple[object, ...]) -> Stream:
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setblocking(False)  # noqa: FBT003 - the standard library's signature
    try:
        await asyncio.get_running_loop().sock_connect(sock, address)
        _not_itself(sock)
    except BaseException:
        sock.close()
        raise
    tune(sock)
    return Stream(sock)


async def owner_of(stream: Stream, session: Session) -> str:
    """Return the client's name in its first bytes, which are left to be read again. Empty: they
    name none.
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
    """Refuse a connection of a port to itself. That can happen in the ephemeral range if nobody
    listens.
    """
    if sock.getsockname() == sock.getpeername():
        raise ConnectionRefusedError("nobody listens there (the port met itself)")


def tune(sock: socket.socket) -> None:
    """Make a socket non-blocking, and turn off Nagle's algorithm."""
    sock.setblocking(False)  # noqa: FBT003 - the standard library's signature
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def port_of(client: socket.socket) -> int:
    """Return the client's port of a connection; 0 if the connection is closed."""
    try:
        port: int = client.getpeername()[1]
    except OSError:
        return 0
    return port
