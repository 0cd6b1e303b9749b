"""A connection whose protocol nobody reads: it has turns, of which the client's are questions and
the server's are answers.

A turn begins with the first byte of a direction after bytes of the other one. All bytes that are
there by then are its frame, to which rules and holds apply. What comes behind them belongs to the
turn and passes in order. So a held turn stands still whole, and of a dropped one nothing arrives.
TLS passes as any other bytes do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.protocols.listening import Listening
from harness.protocols.tcp.steps import STEPS, Exchange
from harness.wire.protocol import Frame, Insight, UnableError, Unframed
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.model.events import Event
    from harness.model.identity import Identity
    from harness.wire.protocol import Data, Fed

VERSION: Final = 0
"""Nobody knows of which version the bytes are."""


@dataclass(slots=True, eq=False)
class Turn(Frame):
    """The beginning of a turn. ``way``: its direction."""

    way: Direction = Direction.REQUEST


class Tcp:
    """Turns, as the wire reads them."""

    name = "tcp"
    steps = STEPS

    def learn(self, names: Mapping[str, str]) -> None:
        """Do nothing: there are no topics."""

    def ledger(self, key: str, identity: Identity | None) -> None:
        """Return nothing: there is nothing to keep of a cell."""

    def session(self, conn: int, *, limit: int) -> TcpSession:  # noqa: ARG002 - no frame is read
        """Return the state of a new connection."""
        return TcpSession(conn)


class TcpSession(Listening[Turn]):
    """The state of one connection: whose turn it is. A client gives no name that could be read."""

    immovable = "belongs to its connection, of which nobody knows the protocol"
    kept = (Frame, Unframed)

    def __init__(self, conn: int) -> None:
        super().__init__()
        self._owner = ""
        self._conn = conn
        self._speaks: Direction | None = None
        """Whose turn it is; ``None``: nobody has spoken yet."""
        self._asked = 0
        """How many turns the client has begun, ..."""
        self._sent = 0
        """... and the last of them that has gone to the server."""

    def _next(self, way: Direction, data: Data) -> Fed:
        """Return the beginning of a turn, or bytes that go on with it."""
        size = len(data)
        return Unframed(size) if way is self._speaks else self._turn(way, size)

    def _turn(self, way: Direction, size: int) -> Turn:
        if way is Direction.REQUEST:
            self._asked += 1
            facts = {"version": VERSION, "corr": self._asked}
            return Turn(str(Exchange.TURN), size, id=self._asked, facts=facts, way=way)
        answers = (self._sent,) if self._sent else ()  # a server that speaks first answers nobody
        facts = {"version": VERSION, "corr": self._sent}
        return Turn(str(Exchange.TURN), size, answers=answers, facts=facts, way=way)

    def read(self, frame: Turn, data: bytes | None, ledger: object) -> Insight:  # noqa: ARG002 - nobody can
        """Return nothing: nobody knows what a turn is about."""
        return Insight()

    def sending(self, frame: Turn) -> None:
        """Take note whose turn it is from now on."""
        self._speaks = frame.way
        if isinstance(frame.id, int):
            self._sent = frame.id

    def settled(self, frame: Turn, ledger: object, *, reached: bool) -> Iterable[Event]:  # noqa: ARG002 - as above
        """Return no line: a turn names no record."""
        return ()

    def refuse(self, frame: Turn, data: bytes, error: str) -> bytes:  # noqa: ARG002 - none of them can
        """Raise UnableError: nobody knows how the server refuses.

        Raises:
            UnableError: always.
        """
        raise UnableError(f"a {frame.step} cannot be refused by {error}")
