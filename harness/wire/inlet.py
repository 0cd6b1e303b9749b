"""Reads one end of a connection, and keeps no more bytes than are needed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.wire.streams import CHUNK_BYTES

if TYPE_CHECKING:
    from harness.wire.streams import Stream


@dataclass(slots=True)
class Flow:
    """Counts the traffic of one direction of a connection."""

    received: int = 0
    """Bytes read from where they come from, in ``reads`` pieces."""
    reads: int = 0
    sent: int = 0
    """Bytes given to the destination."""
    ended_at: float | None = None
    """When the stream ended or broke, by the loop's clock."""
    refused_at: float | None = None
    """When a send to the destination failed, by the loop's clock."""


class Inlet:
    """Reads one end of a connection, and keeps no more bytes than are needed."""

    def __init__(self, stream: Stream, flow: Flow) -> None:
        self.stream = stream
        self._flow = flow
        self._loop = asyncio.get_running_loop()
        self._reading: asyncio.Task[bytes] | None = None
        self.buffer = bytearray()
        self.ended = False

    async def read(self) -> bool:
        """Wait for more bytes; false at the end of the stream."""
        if self.ended:
            return False
        try:
            if self._reading is None:
                data = await self.stream.recv(CHUNK_BYTES)
            else:
                data, self._reading = await self._reading, None
        except OSError:
            self._end()
            raise
        return self._got(data)

    async def read_into(self, view: memoryview) -> int:
        """Read past the buffer, which must be empty; return how many bytes came, 0 at the end of
        the stream.
        """
        if self.ended:
            return 0
        if self._reading is not None:  # begun before: its bytes come first
            await self.read()
            data = self.take(len(view))
            view[: len(data)] = data
            return len(data)
        try:
            count = await self.stream.recv_into(view)
        except OSError:
            self._end()
            raise
        if not count:
            self._end()
        self._flow.received += count
        self._flow.reads += 1
        return count

    async def read_unless(self, event: asyncio.Event) -> bool:
        """Like :meth:`read`, but also come back, with true, when the event is set meanwhile."""
        if self.ended:
            return False
        if self._reading is None:
            self._reading = asyncio.create_task(self.stream.recv(CHUNK_BYTES))
        other = asyncio.create_task(event.wait())
        try:
            await asyncio.wait((self._reading, other), return_when=asyncio.FIRST_COMPLETED)
        finally:
            other.cancel()
        if not self._reading.done():
            return True
        done, self._reading = self._reading, None
        try:
            data = done.result()
        except OSError:
            self._end()
            raise
        return self._got(data)

    def _end(self) -> None:
        self.ended = True
        self._flow.ended_at = self._loop.time()

    def _got(self, data: bytes) -> bool:
        if not data:
            self._end()
        self.buffer += data
        self._flow.received += len(data)
        self._flow.reads += 1
        return not self.ended

    def drop(self, count: int) -> None:
        """Drop the first ``count`` bytes of the buffer."""
        del self.buffer[:count]

    def take(self, count: int) -> bytes:
        """Remove and return the first ``count`` bytes of the buffer, or as many as there are."""
        with memoryview(self.buffer) as view:
            taken = bytes(view[:count])
        del self.buffer[:count]
        return taken

    def close(self) -> None:
        """Stop reading."""
        if self._reading is not None:
            self._reading.cancel()
