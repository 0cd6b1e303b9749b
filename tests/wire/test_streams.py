"""One end of a connection: bytes as they come, in whatever pieces, and nothing of a socket that is
gone.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import pytest

from harness.wire.streams import CHUNK_BYTES, Stream

if TYPE_CHECKING:
    from collections.abc import Coroutine

WITHIN_S = 10


def run(test: Coroutine[None, None, None]) -> None:
    """Run it in a loop of its own, for so long at most."""

    async def within() -> None:
        async with asyncio.timeout(WITHIN_S):
            await test

    asyncio.run(within())


def pair() -> tuple[Stream, socket.socket]:
    """Return a stream, and the other end of it."""
    one, other = socket.socketpair()
    one.setblocking(False)
    return Stream(one), other


async def begun(reading: asyncio.Task[bytes]) -> None:
    """Let a task begin, which then waits."""
    while not reading.get_coro().cr_await:  # type: ignore[union-attr]  # noqa: ASYNC110 - it sets nothing when it waits
        await asyncio.sleep(0)


def test_who_waits_gets_what_comes_again_and_again() -> None:
    async def test() -> None:
        stream, other = pair()
        for number in range(50):
            reading = asyncio.create_task(stream.recv(CHUNK_BYTES))
            await begun(reading)
            other.send(b"%d" % number)
            assert await reading == b"%d" % number
        other.close()
        assert await stream.recv(CHUNK_BYTES) == b""
        stream.close()

    run(test())


def test_what_comes_while_nobody_waits_is_there_later() -> None:
    """It stays with the kernel, nobody looks at it meanwhile (or the loop would turn and turn), and
    none of it is lost.
    """

    async def test() -> None:
        stream, other = pair()
        reading = asyncio.create_task(stream.recv(4))
        await begun(reading)
        other.send(b"12345678")
        assert await reading == b"1234"
        loop = asyncio.get_running_loop()
        watched = loop._selector  # type: ignore[attr-defined]
        while stream.sock.fileno() in watched.get_map():  # noqa: ASYNC110 - nor does a loop when it looks away
            await asyncio.sleep(0)
        room = memoryview(bytearray(8))
        assert await stream.recv_into(room) == 4
        assert bytes(room[:4]) == b"5678"
        filling = asyncio.create_task(stream.recv_into(room))
        await asyncio.sleep(0)
        other.send(b"9")
        assert await filling == 1
        stream.close()
        other.close()

    run(test())


def test_a_wait_that_is_given_up_takes_nothing() -> None:
    async def test() -> None:
        stream, other = pair()
        reading = asyncio.create_task(stream.recv(CHUNK_BYTES))
        await begun(reading)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        other.send(b"late")
        assert await stream.recv(CHUNK_BYTES) == b"late"
        stream.close()
        other.close()

    run(test())


def test_a_reset_is_an_error_of_who_waits() -> None:
    async def test() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            other = socket.create_connection(server.getsockname())
            one, _ = server.accept()
        one.setblocking(False)
        stream = Stream(one)
        reading = asyncio.create_task(stream.recv(CHUNK_BYTES))
        await begun(reading)
        torn = Stream(other)
        torn.reset()
        with pytest.raises(ConnectionResetError):
            await reading
        stream.close()

    run(test())


def test_a_closed_socket_is_watched_no_more() -> None:
    async def test() -> None:
        for number in range(20):
            stream, other = pair()
            reading = asyncio.create_task(stream.recv(CHUNK_BYTES))
            await begun(reading)
            other.send(b"%d" % number)
            assert await reading == b"%d" % number
            stream.close()
            other.close()

    run(test())


def test_more_than_the_kernel_takes_at_once_is_sent() -> None:
    async def test() -> None:
        stream, other = pair()
        data = bytes(range(256)) * (1 << 14)
        other.setblocking(False)
        sending = asyncio.create_task(stream.sendall(data))
        came = bytearray()
        loop = asyncio.get_running_loop()
        while len(came) < len(data):
            came += await loop.sock_recv(other, CHUNK_BYTES)
        await sending
        assert bytes(came) == data
        stream.close()
        other.close()

    run(test())
