"""One connection to a PostgreSQL server: where a COMMIT passes, and its answer.

Only these two are frames, with rules, holds and history lines of their own. Everything else passes as it comes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from harness.core import events as kinds
from harness.protocols.postgres import messages
from harness.protocols.postgres.steps import COMMIT, STEPS
from harness.wire.protocol import Between, Frame, Immovable, Insight, Need, Opaque, UnableError
from harness.wire.rules import Direction, Subject

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.core.identity import Identity
    from harness.wire.protocol import Data, Fed, Line, Move

VERSION: Final = 3
"""Of the protocol."""
_COMPLETE, _ERROR = ord("C"), ord("E")
_LENGTH_BYTES = 4


@dataclass(frozen=True, slots=True)
class Ledger:
    """What is known of a cell: the key by which its records are."""

    key: str


@dataclass(slots=True, eq=False)
class Commit(Frame):
    """A COMMIT (``outcome`` null), or its answer."""

    records: frozenset[tuple[str, str]] = frozenset()
    """Key of the cell and id, of whoever's records."""
    outcome: str | None = None
    request: str = ""
    """The COMMIT's name in the history."""


class Postgres:
    """The protocol."""

    name = "postgres"
    steps = STEPS

    def learn(self, names: Mapping[str, str]) -> None:
        """There are no topics."""

    def ledger(self, key: str, identity: Identity | None) -> Ledger:  # noqa: ARG002 - foreign records are not looked for in statements
        """Make the bookkeeping of a cell."""
        return Ledger(key)

    def session(self, conn: int, *, limit: int) -> PostgresSession:
        """Begin a connection."""
        return PostgresSession(conn, limit)


class PostgresSession:
    """What has been said on one connection, as far as it says what a COMMIT commits."""

    def __init__(self, conn: int, limit: int) -> None:
        self._conn = conn
        self._limit = limit
        self._name: str | None = None
        self._started = self._wants_encryption = False
        self._heard: dict[Direction, Fed] = {}
        """What was fed and not taken: each message is heard once."""
        self._asked = 0
        self._records: set[tuple[str, str]] = set()
        self._ends: deque[Commit | None] = deque()
        """Ends of transactions that were asked for and are not answered yet: commits, and (null) rollbacks."""
        self._statements: dict[bytes, bytes] = {}
        self._portals: dict[bytes, bytes] = {}

    # -- messages -------------------------------------------------------------------------------------------------

    def feed(self, way: Direction, data: Data) -> Fed:
        """Find the next message."""
        known = self._heard.get(way)
        if known is not None:
            return known
        try:
            fed = self._request(data) if way is Direction.REQUEST else self._response(data)
        except messages.NotAMessageError as error:
            return Opaque(str(error))
        if not isinstance(fed, Need):
            self._heard[way] = fed
        return fed

    def taken(self, way: Direction, size: int) -> None:  # noqa: ARG002 - of a message, whole
        """The next message may be heard."""
        self._heard.pop(way, None)

    def _request(self, data: Data) -> Fed:
        if not self._started:
            return self._start(data)
        if len(data) < messages.HEAD_BYTES:
            return Need(messages.HEAD_BYTES)
        kind, size = messages.message(bytes(data[: messages.HEAD_BYTES]))
        if kind in messages.READ and size > self._limit:
            return Between(size, f"{size} bytes are above the limit of {self._limit}")
        if kind in messages.READ and len(data) < size:
            return Need(size)
        ended = self._hear(kind, bytes(data[messages.HEAD_BYTES : size])) if kind in messages.READ else ""
        return self._end(size, ended) if ended else Between(size)

    def _end(self, size: int, ended: str) -> Fed:
        """Take note of the end of a transaction."""
        records = frozenset(self._records)
        self._records.clear()
        if ended == "rollback":
            self._ends.append(None)
            return Between(size)
        self._asked += 1
        return self._commit(size, self._asked, records, id=self._asked)

    def _start(self, data: Data) -> Fed:
        """What a client says first gives its name."""
        if len(data) < messages.START_BYTES:
            return Need(messages.START_BYTES)
        size, code = messages.start(bytes(data[: messages.START_BYTES]))
        if len(data) < size:
            return Need(size)
        self._wants_encryption = code in messages.ENCRYPTION
        if code == messages.STARTUP:
            self._started = True
            self._name = messages.parameters(bytes(data[:size])).get("application_name", "")
        return Between(size)

    def _hear(self, kind: int, body: bytes) -> str:
        """Take in a message that runs or prepares a statement; return ``commit``, ``rollback`` or nothing."""
        match chr(kind):
            case "Q":
                return self._run(body[:-1], body)
            case "P":
                name, statement, *_ = body.split(b"\0", 2)
                self._statements[name] = statement
            case "B":
                portal, name, *_ = body.split(b"\0", 2)
                self._portals[portal] = self._statements.get(name, b"")
                self._records |= messages.records_in(body)
            case "E":
                return self._run(self._portals.get(body.partition(b"\0")[0], b""), b"")
            case "C":
                of = self._statements if body[:1] == b"S" else self._portals
                of.pop(body[1:].partition(b"\0")[0], None)
        return ""

    def _run(self, text: bytes, body: bytes) -> str:
        word = messages.ends(text)
        if not word:
            if messages.begins(text):
                self._records.clear()
            self._records |= messages.records_in(body)
        return word

    def _response(self, data: Data) -> Fed:
        if self._wants_encryption and len(data):
            if bytes(data[:1]) != b"N":
                raise messages.NotAMessageError("the server encrypts: connect with sslmode=disable")
            self._wants_encryption = False
            return Between(1)
        if len(data) < messages.HEAD_BYTES:
            return Need(messages.HEAD_BYTES)
        kind, size = messages.message(bytes(data[: messages.HEAD_BYTES]))
        if not self._ends or kind not in (_COMPLETE, _ERROR) or size > self._limit:
            return Between(size)
        if len(data) < size:
            return Need(size)
        outcome = "refused" if kind == _ERROR else messages.outcome(bytes(data[messages.HEAD_BYTES : size]))
        asked = self._ends.popleft() if outcome else None
        if asked is None or asked.id is None:
            return Between(size)
        return self._commit(size, int(asked.id), asked.records, answers=(asked.id,), outcome=outcome)

    def _commit(self, size: int, number: int, records: frozenset[tuple[str, str]], **more: Any) -> Commit:
        # its size in the history is what stands behind the first four bytes
        facts = {"version": VERSION, "corr": number, "size": size - _LENGTH_BYTES}
        return Commit(COMMIT, size, head=size, facts=facts, records=records, request=f"{self._conn}:{number}", **more)

    # -- what they are about ----------------------------------------------------------------------------------------

    def read(self, frame: Frame, data: bytes | None, ledger: Any) -> Insight:  # noqa: ARG002 - it was heard
        """Say whose records a COMMIT commits."""
        assert isinstance(frame, Commit)  # noqa: S101 - sessions get their own frames back
        return Insight(Subject(_of(frame, ledger)))

    def sending(self, frame: Frame) -> None:
        """Remember a COMMIT that will be answered."""
        if isinstance(frame, Commit) and frame.outcome is None:
            self._ends.append(frame)

    def settled(self, frame: Frame, ledger: Any, *, reached: bool) -> Iterable[Line]:
        """Return one line for each record."""
        if ledger is None or not isinstance(frame, Commit):
            return ()
        told = {"request": frame.request, "outcome": frame.outcome, "reached": reached}
        return [(kinds.DATABASE_COMMIT, {"record": record, **told}) for record in sorted(_of(frame, ledger))]

    # -- what can be done to it ---------------------------------------------------------------------------------------

    def refuse(self, frame: Frame, error: str) -> bytes:
        """Nothing is refused yet."""
        raise UnableError(f"a {frame.step} cannot be refused by {error}")

    def move(self, frame: Frame, data: bytes) -> Move | Immovable:  # noqa: ARG002 - none of them is
        """A transaction is its connection's."""
        return Immovable("belongs to its connection, as a transaction does")

    def owner(self) -> str | None:
        """Return the application's name."""
        return self._name

    def silence_s(self, way: Direction) -> None:
        """A connection may be silent."""

    def ended(self, by: str, ledger: Any) -> Iterable[Line]:  # noqa: ARG002 - nobody's end is told
        """Nothing: what is open is rolled back, as every transaction is that nobody was asked to commit."""
        return ()


def _of(frame: Commit, ledger: Ledger) -> frozenset[str]:
    return frozenset(record for key, record in frame.records if key == ledger.key)
