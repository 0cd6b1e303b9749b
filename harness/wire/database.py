"""A connection to a PostgreSQL server through the wire: its lanes know where a COMMIT passes, and its answer.

Only these two are frames, with rules, holds and history lines of their own. Everything else passes as it comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.core import events as kinds
from harness.wire import postgres
from harness.wire.connection import Lane
from harness.wire.frames import LENGTH_BYTES, NotAFrameError
from harness.wire.rules import Api, Subject
from harness.wire.tracker import Insight, Line

if TYPE_CHECKING:
    from harness.wire.cell import Frame

VERSION = 3
"""Of the protocol."""
_COMPLETE, _ERROR = ord("C"), ord("E")


class DatabaseLane(Lane):
    """One direction of it."""

    async def _request(self) -> bool:
        if not self._conn.dialogue.started:
            return await self._start()
        if not await self._fill(postgres.HEAD_BYTES):
            return False
        kind, size = postgres.message(bytes(self._inlet.buffer[: postgres.HEAD_BYTES]))
        if kind not in postgres.READ or self._conn.cell is None:
            return await self._on(size)
        if size > self._wire.decode_limit:
            frame = self._frame(self._conn.dialogue.asked, size, frozenset(), None)
            self._conn.cell.blind(frame, f"{size} bytes are above the limit of {self._wire.decode_limit}")
            return await self._on(size)
        return await self._fill(size) and await self._hear(kind, size, self._conn.cell.key)

    async def _hear(self, kind: int, size: int, key: str) -> bool:
        """Pass on what says which statements are run; a COMMIT is a frame of its own."""
        dialogue = self._conn.dialogue
        await self._conn.gate()
        ended = dialogue.hear(kind, self._body(size), key)
        if not ended:
            return await self._on(size)
        records = dialogue.forget()
        if ended == "rollback":
            dialogue.ends.append(None)
            return await self._on(size)
        dialogue.asked += 1
        frame = self._frame(dialogue.asked, size, records, None)
        dialogue.ends.append(frame)
        return await self._treat(frame, None)

    async def _start(self) -> bool:
        """Pass on what a client says first; it gives its name, which is its client id here."""
        if not await self._fill(postgres.START_BYTES):
            return False
        size, code = postgres.start(bytes(self._inlet.buffer[: postgres.START_BYTES]))
        if not await self._fill(size):
            return False
        dialogue = self._conn.dialogue
        dialogue.asked_for_encryption = code in postgres.ENCRYPTION
        if code == postgres.STARTUP:
            dialogue.started = True
            said = postgres.parameters(bytes(self._inlet.buffer[:size]))
            self._conn.identify(said.get("application_name", ""))
        return await self._on(size)

    async def _response(self) -> bool:
        if not await self._fill(1):
            return False
        if self._conn.dialogue.asked_for_encryption:
            return await self._refused_encryption()
        if not await self._fill(postgres.HEAD_BYTES):
            return False
        kind, size = postgres.message(bytes(self._inlet.buffer[: postgres.HEAD_BYTES]))
        if not self._conn.dialogue.ends or kind not in (_COMPLETE, _ERROR) or size > self._wire.decode_limit:
            return await self._on(size)
        return await self._fill(size) and await self._end(kind, size)

    async def _refused_encryption(self) -> bool:
        """Pass on the one byte that answers a wish for encryption; what is encrypted nobody reads along."""
        self._conn.dialogue.asked_for_encryption = False
        if self._inlet.buffer[:1] != b"N":
            raise NotAFrameError("the server encrypts: connect with sslmode=disable")
        return await self._on(1)

    async def _end(self, kind: int, size: int) -> bool:
        """Pass on an answer; to a COMMIT it is a frame of its own."""
        outcome = "refused" if kind == _ERROR else postgres.outcome(self._body(size))
        asked = self._conn.dialogue.ends.popleft() if outcome else None
        if asked is None:
            return await self._on(size)
        frame = self._frame(asked.corr, size, asked.insight.subject.records, outcome)
        frame.client, frame.cell = asked.client, asked.cell
        return await self._treat(frame, self._conn.pending.pop(asked.corr, None))

    def _body(self, size: int) -> bytes:
        """Return what stands behind the head of the message at hand."""
        with memoryview(self._inlet.buffer) as view:
            return bytes(view[postgres.HEAD_BYTES : size])

    async def _on(self, size: int) -> bool:
        """Pass on so many bytes; false where the stream has ended."""
        await self._conn.gate()
        await self._pass(size)
        return not self._inlet.ended or bool(self._inlet.buffer)

    def _frame(self, number: int, size: int, records: frozenset[str], outcome: str | None) -> Frame:
        """Make the record of a COMMIT (``outcome`` null) or of its answer."""
        # its size is what stands behind the first four bytes, as of every frame here
        frame = self._conn.frame(self._direction, Api.DATABASE_COMMIT, VERSION, number, size - LENGTH_BYTES)
        about = [{"record": record, "request": frame.request, "outcome": outcome} for record in sorted(records)]
        lines = tuple(Line(kinds.DATABASE_COMMIT, each) for each in about)
        frame.insight = Insight(Subject(records=records), request=frame.request, lines=lines)
        return frame
