"""The bytes of one direction of a connection: read when they can be passed on, held back while it
is frozen, lost in the dark.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from harness.wire.inlet import Inlet
from harness.wire.streams import CHUNK_BYTES

if TYPE_CHECKING:
    from harness.wire.connection import Connection, Hub
    from harness.wire.rules import Direction
    from harness.wire.streams import Stream


class Pipe:
    """Passes on what it is told to, and keeps nothing but what was read and not yet looked at."""

    def __init__(
        self, hub: Hub, conn: Connection, direction: Direction, source: Stream, target: Stream
    ) -> None:
        self._hub = hub
        self._conn = conn
        self._direction = direction
        self._loop = asyncio.get_running_loop()
        self._flow = conn.flows[direction]
        self._target = target
        self.inlet = Inlet(source, self._flow)
        self.dark = False
        """A rule has made this direction silent for good."""
        self.ahead = 0
        """How many bytes of the frame at hand have not yet been given to anybody."""

    async def fill(self, count: int) -> bool:
        """Read until ``count`` bytes are in the buffer. Return false if the stream ends before
        that, or is opaque.
        """
        inlet, opaque = self.inlet, self._conn.opaque
        while len(inlet.buffer) < count and not opaque.is_set():
            if not await (inlet.read_unless(opaque) if inlet.buffer else inlet.read()):
                return False
        return not opaque.is_set()

    @property
    def silent(self) -> bool:
        """Whether a black hole discards what is sent."""
        return self.dark or self._hub.is_dark(self._conn, self._direction)

    @property
    def sent(self) -> int:
        """How many bytes the other end's kernel was given so far."""
        return self._flow.sent

    async def send(self, data: bytes | memoryview, ahead: int = 0) -> None:
        """Pass on bytes, behind which ``ahead`` of their frame come."""
        if self._conn.frozen_by:
            await self._conn.gate()
        if self.dark:
            return
        if self._hub.is_dark(self._conn, self._direction):
            self._flow.swallowed = True
            return
        self.ahead = ahead
        try:
            await self._target.sendall(data)
        except OSError:
            self._flow.refused_at = self._loop.time()
            raise
        self._flow.sent += len(data)

    async def rest(self) -> None:
        """Pass on what is left as bare bytes."""
        while True:
            while self.inlet.buffer:
                await self.send(self.inlet.take(CHUNK_BYTES))
            if not await self.inlet.read():
                return

    async def pass_on(self, size: int, *, keep: bool = True) -> bool:
        """Pass on (or, unless ``keep``, throw away) the next ``size`` bytes; true when all of them
        went.
        """
        inlet, left = self.inlet, size
        self.ahead = size
        while left:
            if not inlet.buffer and left >= CHUNK_BYTES:
                left = await self._stream(left, keep=keep)
            if left and not inlet.buffer and not await inlet.read():
                return False
            count = min(left, len(inlet.buffer))
            if keep and count:
                with memoryview(inlet.buffer) as whole, whole[:count] as part:
                    await self.send(part, left - count)
            inlet.drop(count)
            left -= count
        self._conn.session.taken(self._direction, size)
        return keep and not self.silent

    async def _stream(self, size: int, *, keep: bool) -> int:
        """Pass on what lies between two headers without looking at it; return how many bytes are
        left to pass.
        """
        left = size
        with self._hub.scratch() as scratch:
            while left >= CHUNK_BYTES:
                count = await self.inlet.read_into(scratch[:left])
                if not count:
                    break
                left -= count
                if keep:
                    await self.send(scratch[:count], left)
        return left
