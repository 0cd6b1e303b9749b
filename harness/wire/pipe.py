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
    """Forwards, discards or holds back the bytes of one direction. It buffers only bytes that were
    read and not yet parsed.
    """

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
        """Whether a rule discards all further bytes of this direction."""
        self.ahead = 0
        """How many bytes of the current frame have not yet been handed to the destination's socket.
        0 during the last send: then some of the last bytes may arrive or not.
        """

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
    def sent(self) -> int:
        """How many bytes the other end's kernel was given so far."""
        return self._flow.sent

    async def send(self, data: bytes | memoryview, ahead: int = 0) -> None:
        """Forward bytes. ``ahead``: how many bytes of their frame follow them."""
        if self._conn.frozen_by:
            await self._conn.gate()
        if self.dark:
            return
        self.ahead = ahead
        try:
            await self._target.sendall(data)
        except OSError:
            self._flow.refused_at = self._loop.time()
            raise
        self._flow.sent += len(data)

    async def rest(self) -> None:
        """Forward the rest of the stream without parsing it."""
        while True:
            while self.inlet.buffer:
                await self.send(self.inlet.take(CHUNK_BYTES))
            if not await self.inlet.read():
                return

    async def pass_on(self, size: int, *, keep: bool = True, begun: int = 0) -> bool:
        """Forward (or, unless ``keep``, discard) the next ``size`` bytes, of which ``begun`` have
        gone on already. Return whether all of them were forwarded.
        """
        self.ahead = size - begun
        if not await self._pass(size - begun, 0, keep=keep):
            return False
        self._conn.session.taken(self._direction, size)
        return keep and not self.dark

    async def begin(self, count: int, size: int) -> bool:
        """Forward the first ``count`` bytes of ``size``. Return false if the stream ends before."""
        self.ahead = size
        return await self._pass(count, size - count, keep=True)

    async def _pass(self, size: int, behind: int, *, keep: bool) -> bool:
        """Forward or discard the next bytes. ``behind``: how many bytes of their frame are left for
        later. Return false if the stream ends before.
        """
        inlet, left = self.inlet, size
        while left:
            if not inlet.buffer and left >= CHUNK_BYTES:
                left = await self._stream(left, behind, keep=keep)
            if left and not inlet.buffer and not await inlet.read():
                return False
            count = min(left, len(inlet.buffer))
            if keep and count:
                with memoryview(inlet.buffer) as whole, whole[:count] as part:
                    await self.send(part, left - count + behind)
            inlet.drop(count)
            left -= count
        return True

    async def _stream(self, size: int, behind: int, *, keep: bool) -> int:
        """Forward the body of a large frame without buffering it. Return how many bytes are left to
        forward.
        """
        left = size
        with self._hub.scratch() as scratch:
            while left >= CHUNK_BYTES:
                count = await self.inlet.read_into(scratch[:left])
                if not count:
                    break
                left -= count
                if keep:
                    await self.send(scratch[:count], left + behind)
        return left
