"""Send a held frame over a new connection, after the protocol's greeting, and keep its answer from
the client.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.wire.protocol import (
    AwaitAnswer,
    Frame,
    Need,
    Opaque,
    UnableError,
    insight_of,
)
from harness.wire.rules import Direction
from harness.wire.sockets import connect
from harness.wire.streams import CHUNK_BYTES

if TYPE_CHECKING:
    from harness.wire.cell import FrameInFlight, WireCell
    from harness.wire.connection import Connection
    from harness.wire.protocol import Fed, Move, Session
    from harness.wire.streams import Stream


class DeliveryError(Exception):
    """The frame did not get to the broker; the message is one line."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The broker's response. ``error`` is None if there was none, or if it cannot be parsed."""

    answered: bool
    error: int | str | None = None


class _Talk:
    """A new connection to the broker, with the wire as its client."""

    def __init__(self, stream: Stream, session: Session, limit: int) -> None:
        self.stream = stream
        self.session = session
        self._limit = limit
        self._came = bytearray()

    async def say(self, data: bytes) -> None:
        """Send the frames that the protocol needs first, and tell the session."""
        at = 0
        while at < len(data):
            fed = self.session.feed(Direction.REQUEST, data[at:])
            if isinstance(fed, Need | Opaque):
                raise DeliveryError("what its protocol says before it is no frame of its own")
            if isinstance(fed, Frame):
                self.session.sending(fed)
            self.session.taken(Direction.REQUEST, fed.size)
            at += fed.size
        await self.stream.sendall(data)

    async def expect(self, expected: AwaitAnswer) -> dict[str, str]:
        """Wait for a response, and return the facts of it that must be kept."""
        while (frame := await self.next_frame()) is not None:
            if frame[0].step == expected.step:
                kept = {kept: str(frame[0].facts[name]) for name, kept in expected.keep.items()}
                try:
                    return {**kept, **(expected.take(frame[1]) if expected.take else {})}
                except UnableError as error:
                    raise DeliveryError(str(error)) from error
            if not frame[0].keepalive:
                raise DeliveryError(f"the broker said {frame[0].step} instead of {expected.step}")
        raise DeliveryError(f"the broker left instead of saying {expected.step}")

    async def next_frame(self) -> tuple[Frame, bytes] | None:
        """Return the next frame, with all its bytes if it is below the limit; None if no other
        frame comes.
        """
        while True:
            fed: Fed = self.session.feed(Direction.RESPONSE, self._came) if self._came else Need(1)
            if isinstance(fed, Opaque):
                return None
            whole = fed.bytes if isinstance(fed, Need) else fed.size
            if isinstance(fed, Frame) and whole > self._limit:
                return None
            if len(self._came) < whole:
                more = await self.stream.recv(CHUNK_BYTES)
                if not more:
                    return None
                self._came += more
                continue
            data = bytes(self._came[:whole])
            del self._came[:whole]
            self.session.taken(Direction.RESPONSE, whole)
            if isinstance(fed, Frame):
                return fed, data


async def deliver(
    conn: Connection, move: Move, carried: FrameInFlight, *, within_s: float
) -> Answer:
    """Send a frame whole over a connection like ``conn``, and record it and its answer.

    Raises:
        DeliveryError: the frame did not arrive.
    """
    cell = carried.cell
    assert cell is not None  # noqa: S101 - it was held for one
    talk: _Talk | None = None
    try:
        try:
            async with asyncio.timeout(within_s):
                stream = await connect(conn.route.upstream_host, conn.route.upstream_port)
                talk = _Talk(
                    stream, conn.protocol.session(carried.conn, limit=MOST_BYTES), MOST_BYTES
                )
                if conn.ends is not None:
                    await stream.speak_tls(conn.ends)
                await _send(talk, move, carried)
        except OSError as error:  # a time-out is one
            raise DeliveryError(
                error.strerror or str(error) or "the broker does not take it"
            ) from error
        cell.settle(carried, reached=True)
        try:
            async with asyncio.timeout(within_s):
                found = await _answer(talk, carried.frame)
        except OSError:
            return Answer(answered=False)
        if carried.frame.id is None or found is None:
            return Answer(answered=False)
        return Answer(answered=True, error=_record(talk.session, carried, cell, *found))
    finally:
        if talk is not None:
            talk.stream.close()


MOST_BYTES = 1 << 28


async def _send(talk: _Talk, move: Move, carried: FrameInFlight) -> None:
    kept: dict[str, str] = {}
    for part in move.talk:
        if isinstance(part, AwaitAnswer):
            kept |= await talk.expect(part)
        else:
            try:
                await talk.say(part.make(kept))
            except UnableError as error:
                raise DeliveryError(str(error)) from error
    talk.session.sending(carried.frame)
    await talk.stream.sendall(move.frame)
    if carried.frame.id is None:
        await talk.stream.finish()


async def _answer(talk: _Talk, frame: Frame) -> tuple[Frame, bytes] | None:
    """Wait for the response to a frame; None if the broker closes the connection first."""
    while (found := await talk.next_frame()) is not None:
        if frame.id in found[0].answers:
            return found
    return None


def _record(
    session: Session, carried: FrameInFlight, cell: WireCell, frame: Frame, data: bytes
) -> int | str | None:
    insight = insight_of(session, frame, data, carried.ledger)
    if insight.because is not None:
        cell.blind(carried, insight.because)
    cell.write_all(session.settled(frame, carried.ledger, reached=False))
    return insight.error
