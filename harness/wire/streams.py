"""One end of a connection for the lanes: a socket, plain or with TLS, which may begin at the first
byte or later.

A stream buffers only what TLS needs: an incomplete TLS record. When a send returns, the kernel has
the bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import ssl
import struct
from typing import TYPE_CHECKING, TypeVar

from harness.wire.tls import is_torn, why_not_let_in, why_not_served

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.wire.tls import Ends

Taken = TypeVar("Taken", bytes, int)

CHUNK_BYTES = 1 << 16
BLOCK_BYTES = 1 << 18
"""How many bytes TLS encrypts before it sends them."""
NARROW_BYTES = 1 << 16
AGREED_WITHIN_S = 10.0


class TlsError(OSError):
    """The TLS handshake failed, or TLS broke later; the message is one line."""


class Stream:
    """A socket of the wire, plain or with TLS. One task reads from it, one writes to it."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.torn = False
        """Whether the other end closed the connection without the closing message of TLS
        (close_notify).
        """
        self._loop = asyncio.get_running_loop()
        self._back = b""
        self._tls: _Tls | None = None
        self._why: Callable[[Exception], str] = str
        self._waiter: asyncio.Future[bytes] | asyncio.Future[int] | None = None
        self._take: Callable[[], None] = self._look_away
        """Reads bytes for the task that waits, and hands them over."""
        self._watched = False
        self._empty = False
        """Whether the last read emptied the socket; the next one waits until the kernel reports
        more bytes.
        """

    @property
    def secured(self) -> bool:
        """Whether TLS has begun."""
        return self._tls is not None

    @property
    def left(self) -> bool:
        """Whether the other end has closed the connection, also while its last bytes are not read.
        Only Linux tells; elsewhere it is false.
        """
        watched = select.poll()
        watched.register(self.sock, getattr(select, "POLLRDHUP", 0))
        return bool(watched.poll(0))

    def narrow(self) -> None:
        """Let the kernel keep few bytes that are not read: the other end's window closes soon, and
        what it sends stays with it.
        """
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, NARROW_BYTES)

    async def recv(self, count: int) -> bytes:
        """Wait for bytes, and return at most ``count`` of them; ``b""``: the other end sends no
        more.
        """
        if self._back:
            data, self._back = self._back[:count], self._back[count:]
            return data
        if self._tls is None:
            data = await self._taken(lambda: self.sock.recv(count))
            self._empty = len(data) < count
            return bytes(data)
        room = bytearray(count)
        came = await self._read(memoryview(room))
        return bytes(room[:came])

    async def recv_into(self, view: memoryview) -> int:
        """Wait for bytes, write them into ``view``, and return how many came; 0: the other end
        sends no more.
        """
        if self._back:
            data = await self.recv(len(view))
            view[: len(data)] = data
            return len(data)
        if self._tls is None:
            count: int = await self._taken(lambda: self.sock.recv_into(view))
            self._empty = count < len(view)
            return count
        return await self._read(view)

    async def _taken(self, take: Callable[[], Taken]) -> Taken:
        """Read bytes as soon as there are any.

        The event loop watches the socket from one wait to the next: to begin and end that costs as
        much as to read a small frame.
        """
        if not self._empty:
            try:
                return take()
            except (BlockingIOError, InterruptedError):
                pass
        waiter: asyncio.Future[Taken] = self._loop.create_future()
        self._take, self._waiter = lambda: waiter.set_result(take()), waiter
        if not self._watched:
            self._loop.add_reader(self.sock, self._ready)
            self._watched = True
        try:
            return await waiter
        finally:
            self._waiter = None

    def _ready(self) -> None:
        """Read bytes for the task that waits. If none waits, leave the bytes in the kernel, and
        stop watching the socket.
        """
        waiter = self._waiter
        if waiter is None or waiter.done():
            self._look_away()
            return
        try:
            self._take()
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            waiter.set_exception(error)

    def _look_away(self) -> None:
        if self._watched:
            self._loop.remove_reader(self.sock)
            self._watched = False

    async def sendall(self, data: bytes | memoryview) -> None:
        """Send all bytes; when this returns, the kernel has them."""
        if self._tls is not None:
            await self._tls.sendall(data)
            return
        try:
            sent = self.sock.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        if sent < len(data):
            with memoryview(data) as view:
                await self._loop.sock_sendall(self.sock, view[sent:])

    def unread(self, data: bytes) -> None:
        """Put bytes back, so that the next read returns them first."""
        self._back = data + self._back

    async def serve_tls(self, ends: Ends) -> None:
        """Begin TLS with a client. Bytes that were put back by :meth:`unread` count as its first
        TLS bytes.

        Raises:
            TlsError: the handshake with the client failed.
            OSError: the connection has ended.
        """
        await self._secure(ends.server, None, why_not_served)

    async def speak_tls(self, ends: Ends) -> None:
        """Begin TLS with a server.

        Raises:
            TlsError: the handshake with the server failed, or its certificate is not trusted.
            OSError: the connection has ended.
        """
        await self._secure(ends.client, ends.name, why_not_let_in)

    async def _secure(
        self, context: ssl.SSLContext, name: str | None, why: Callable[[Exception], str]
    ) -> None:
        self._look_away()  # TLS waits by itself
        tls, self._why = _Tls(self.sock, context, name, self._back), why
        self._back = b""
        try:
            async with asyncio.timeout(AGREED_WITHIN_S):
                await tls.shake_hands()
        except TimeoutError as error:
            raise TlsError(
                f"the TLS handshake was not complete within {AGREED_WITHIN_S:g} s"
            ) from error
        except ssl.SSLError as error:
            raise TlsError(why(error)) from error
        self._tls = tls

    async def finish(self, *, torn: bool = False) -> None:
        """End the sending direction; reading goes on. With ``torn``, leave out the closing message
        of TLS (close_notify).
        """
        with contextlib.suppress(OSError):
            if self._tls is not None and not torn:
                self._back += self._tls.waiting()
                await self._tls.say_end()
            self.sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the socket."""
        self._look_away()
        self.sock.close()

    def reset(self) -> None:
        """Close the socket so that the other side sees a reset (RST)."""
        self._look_away()
        with contextlib.suppress(OSError):
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    async def _read(self, view: memoryview) -> int:
        assert self._tls is not None  # noqa: S101 - who calls has looked
        try:
            return await self._tls.read(view)
        except ssl.SSLError as error:
            if is_torn(error):
                self.torn = True
                return 0
            raise TlsError(self._why(error)) from error


class _Tls:
    """TLS over in-memory buffers, and the socket that carries its bytes. ``came``: TLS bytes that
    were read already.
    """

    def __init__(
        self, sock: socket.socket, context: ssl.SSLContext, name: str | None, came: bytes
    ) -> None:
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._incoming.write(came)
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=name is None, server_hostname=name
        )
        self._sending = asyncio.Lock()

    async def shake_hands(self) -> None:
        """Complete the handshake. If it fails, send the other side the TLS alert that says why."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._send()
                await self._take()
            except ssl.SSLError:
                with contextlib.suppress(OSError):
                    await self._send()
                raise
            else:
                return await self._send()

    async def read(self, view: memoryview) -> int:
        """Wait for decrypted bytes, write them into ``view``, and return how many came; 0: the
        other side sends no more.
        """
        while not (came := self._decrypted(view)):
            if (
                self._outgoing.pending and not self._sending.locked()
            ):  # the coroutine that is sending sends these bytes, too
                await self._send()
            if came == 0:
                return 0
            await self._take()
        return came

    def _decrypted(self, view: memoryview) -> int | None:
        """Decrypt what has come into ``view``, and return how much; None: nothing yet, 0: the other
        side sends no more.
        """
        came = 0
        while came < len(view):
            try:
                more = self._tls.read(len(view) - came, view[came:])
            except ssl.SSLWantReadError:
                return came or None
            except ssl.SSLZeroReturnError:
                return came
            except ssl.SSLError:
                if came:  # the next read raises the error again
                    return came
                raise
            if not more:
                return came
            came += int(more)
        return came

    def waiting(self) -> bytes:
        """Return the decrypted bytes that have come and were not read."""
        block, parts = memoryview(bytearray(BLOCK_BYTES)), []
        with contextlib.suppress(ssl.SSLError):
            while came := self._decrypted(block):
                parts.append(bytes(block[:came]))
        return b"".join(parts)

    async def sendall(self, data: bytes | memoryview) -> None:
        """Encrypt bytes and send them."""
        with memoryview(data) as view:
            at = 0
            while at < len(view):
                at += self._tls.write(view[at : at + BLOCK_BYTES])
                if self._outgoing.pending >= BLOCK_BYTES or at == len(view):
                    await self._send()

    async def say_end(self) -> None:
        """Send the closing message of TLS (close_notify). Bytes that have come must be read before,
        or they are lost.
        """
        with contextlib.suppress(ssl.SSLError):
            # its other half, the other side's word, is read as any other bytes are
            self._tls.unwrap()
        await self._send()

    async def _send(self) -> None:
        async with self._sending:
            while data := self._outgoing.read():
                await self._loop.sock_sendall(self._sock, data)

    async def _take(self) -> None:
        data = await self._loop.sock_recv(self._sock, CHUNK_BYTES)
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()
