"""A server beside a pipeline, whatever it speaks: PostgreSQL is recognised by a client's first
message and read for its commits; of any other connection the turns are seen.

Nothing here voids a cell, for the wire need not read what a service is told. What cannot be read of
PostgreSQL's protocol, such as TLS, passes as turns from there on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.protocols.postgres import messages
from harness.protocols.postgres.session import Commit, Ledger, PostgresSession
from harness.protocols.postgres.steps import STEPS as COMMITS
from harness.protocols.tcp.session import TcpSession, Turn
from harness.protocols.tcp.steps import STEPS as TURNS
from harness.wire.protocol import Need, Opaque, Secure, Unframed
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.model.events import Event
    from harness.model.identity import Identity
    from harness.wire.protocol import Data, Fed, Immovable, Insight, Move, Session

LARGEST: Final = 1 << 16
"""A client's first message to PostgreSQL is smaller, in bytes."""


class Service:
    """What the wire reads of servers beside a pipeline."""

    name = "service"
    steps = {**COMMITS, **TURNS}  # noqa: RUF012 - as an attribute of the interface

    def learn(self, names: Mapping[str, str]) -> None:
        """Do nothing: there are no topics."""

    def ledger(self, key: str, identity: Identity | None) -> Ledger:  # noqa: ARG002 - foreign records are not looked for
        """Make the bookkeeping of a cell."""
        return Ledger(key)

    def session(self, conn: int, *, limit: int) -> ServiceSession:
        """Return the state of a new connection."""
        return ServiceSession(conn, limit)


def begins_postgres(data: bytes) -> bool | None:
    """Say whether a client that begins with these bytes speaks PostgreSQL; ``None``: more bytes of
    its message are to come.

    >>> ssl = bytes([0, 0, 0, 8, 4, 210, 22, 47])
    >>> begins_postgres(ssl), begins_postgres(ssl[:6]), begins_postgres(b"GET / HTTP/1.1")
    (True, None, False)
    """
    size = int.from_bytes(data[:4], "big")
    if data[:1] != b"\0" or (len(data) >= 4 and not messages.START_BYTES <= size < LARGEST):  # noqa: PLR2004 - the size's own bytes
        return False
    if len(data) < messages.START_BYTES:
        return None
    try:
        messages.start(data[: messages.START_BYTES])
    except messages.NotAMessageError:
        return False
    return True


class ServiceSession:
    """The state of one connection: PostgreSQL's while it can be read, else whose turn it is."""

    def __init__(self, conn: int, limit: int) -> None:
        self._postgres = PostgresSession(conn, limit, foreign=True)
        self._turns = TcpSession(conn)
        self._reads: bool | None = None
        """Whether PostgreSQL is spoken and read; ``None``: nobody has spoken yet."""
        self._fed: dict[Direction, PostgresSession | TcpSession] = {}
        """Who has said what stands at the beginning of the buffer."""

    def feed(self, way: Direction, data: Data) -> Fed:
        """Return what the bytes begin with. Nothing is opaque."""
        if way in self._fed:
            return self._fed[way].feed(way, data)
        if self._reads is None and way is Direction.REQUEST:
            self._reads = begins_postgres(bytes(data[: messages.START_BYTES]))
            if self._reads is None:
                return Need(messages.START_BYTES)
        if self._reads:
            fed = self._postgres.feed(way, data)
            if isinstance(fed, Need):
                return fed
            if isinstance(fed, Secure) and way is Direction.REQUEST:
                return Unframed(fed.size)  # if the server grants it, that is turns
            if not isinstance(fed, Secure | Opaque) and fed.because is None:
                self._fed[way] = self._postgres
                return fed
        self._reads = False
        self._fed[way] = self._turns
        return self._turns.feed(way, data)

    def taken(self, way: Direction, size: int) -> None:
        """Take note that bytes have left the buffer."""
        self._fed.pop(way, self._postgres).taken(way, size)

    def read(self, frame: Commit | Turn, data: bytes | None, ledger: Ledger) -> Insight:
        """Say what has become of a commit."""
        return self._of(frame).read(frame, data, ledger)

    def sending(self, frame: Commit | Turn) -> None:
        """Take note that a frame is about to go."""
        self._of(frame).sending(frame)

    def settled(
        self, frame: Commit | Turn, ledger: Ledger | None, *, reached: bool
    ) -> Iterable[Event]:
        """Return the lines of a frame whose fate is known."""
        return self._of(frame).settled(frame, ledger, reached=reached)

    def refuse(self, frame: Commit | Turn, data: bytes, error: str) -> bytes:
        """Raise UnableError: no frame of a service can be refused."""
        return self._of(frame).refuse(frame, data, error)

    def move(self, frame: Commit | Turn, data: bytes) -> Move | Immovable:
        """Return that the bytes belong to their connection."""
        return self._of(frame).move(frame, data)

    def owner(self) -> str | None:
        """Return the name that a client of PostgreSQL gave itself; of others there is none."""
        name = self._postgres.owner()
        return self._turns.owner() if name is None and self._reads is False else name

    def silence_s(self, way: Direction) -> None:
        """Return ``None``: a connection may be silent."""

    def ended(self, by: str, ledger: object) -> Iterable[Event]:  # noqa: ARG002 - nobody's end is told
        """Return no line."""
        return ()

    def _of(self, frame: Commit | Turn) -> Session:
        return self._postgres if isinstance(frame, Commit) else self._turns
