"""Sending a held request over a fresh connection, and swallowing its answer."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.wire import codec, frames
from harness.wire.rules import Direction
from harness.wire.tracker import FetchSession

if TYPE_CHECKING:
    from harness.wire.cell import Frame, WireCell
    from harness.wire.messages import Route


class DeliveryError(Exception):
    """The request did not get to the broker; the message is one line."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the broker said. ``error`` is None where there was no answer, or one this wire cannot read."""

    answered: bool
    error: int | None = None


async def deliver(route: Route, frame: Frame, cell: WireCell, within_s: float) -> Answer:
    """Send a request whole, and record it and its answer. Raises :class:`DeliveryError` where it did not arrive."""
    if frame.payload is None:
        raise DeliveryError("the request was not kept")
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setblocking(False)  # noqa: FBT003 - the standard library's signature
    try:
        try:
            async with asyncio.timeout(within_s):
                await _send(sock, route, frame.payload)
                if frame.unanswered:
                    sock.shutdown(socket.SHUT_WR)
        except OSError as error:  # a time-out is one
            raise DeliveryError(error.strerror or "the broker does not take it") from error
        cell.settle(frame, reached=True)
        try:
            async with asyncio.timeout(within_s):
                data = await _receive(sock)
        except (OSError, frames.NotAFrameError):
            return Answer(answered=False)
        if frame.unanswered or data is None:
            return Answer(answered=False)
        return Answer(True, _record(frame, cell, data))  # noqa: FBT003 - answered
    finally:
        sock.close()


async def _send(sock: socket.socket, route: Route, payload: bytes) -> None:
    loop = asyncio.get_running_loop()
    await loop.sock_connect(sock, (route.upstream_host, route.upstream_port))
    await loop.sock_sendall(sock, len(payload).to_bytes(frames.LENGTH_BYTES, "big"))
    await loop.sock_sendall(sock, payload)


async def _receive(sock: socket.socket) -> bytes | None:
    """Read one response (without its length); None where the broker closes without one."""
    loop = asyncio.get_running_loop()
    data = bytearray()
    while len(data) < frames.LENGTH_BYTES or len(data) < frames.LENGTH_BYTES + frames.frame_size(data, least=4):
        more = await loop.sock_recv(sock, 1 << 16)
        if not more:
            return None
        data += more
    return bytes(data[frames.LENGTH_BYTES :])


def _record(frame: Frame, cell: WireCell, data: bytes) -> int | None:
    if not codec.decodable(frame.api, Direction.RESPONSE):
        return None
    try:
        content = codec.decode(frame.api, Direction.RESPONSE, frame.version, data)
    except codec.UndecodableError as error:
        cell.blind(frame, str(error))
        return None
    if isinstance(content, codec.Names):
        return None
    insight = cell.tracker.look_at_response(content, frame.insight, FetchSession(), frame.conn)
    for kind, fields in cell.tracker.settle(insight, reached=False):
        cell.write(kind, **fields)
    return insight.error
