"""The state of one connection to a PostgreSQL server: it finds each commit, and its answer.

Only these two, and what the reader of a replication slot confirms, are frames, to which rules and
holds apply and which have history lines. Other messages pass unchanged. A commit is a COMMIT, a
statement outside a transaction block, or the Sync after several of those. The latter two are frames
only if they commit records; of somebody else's program, whose records are not looked for in
statements, unless they only read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from harness.model import events as kinds
from harness.protocols.listening import Listening
from harness.protocols.postgres import messages, statements
from harness.protocols.postgres.course import OpenStatements
from harness.protocols.postgres.statements import Does
from harness.protocols.postgres.steps import STEPS, Database
from harness.wire.protocol import (
    Frame,
    Insight,
    Need,
    Opaque,
    Secure,
    UnableError,
    Unframed,
)
from harness.wire.rules import Direction, Subject

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.model.events import CommitOutcome, Event
    from harness.model.identity import Identity
    from harness.protocols.postgres.course import AnswerMeaning
    from harness.wire.protocol import Data, Fed

VERSION: Final = 3
"""Of the protocol."""
COMMITTED: Final = "committed"
"""The outcome of a commit that was done."""
_COMMIT: Final = str(Database.COMMIT)
_QUERY: Final = ord("Q")
_LENGTH_BYTES: Final = 4
Key: TypeAlias = tuple[str, str]
"""A record, of whichever cell: the cell's key, and its id."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The bookkeeping of one cell: the key that its records carry."""

    key: str


@dataclass(slots=True, eq=False)
class Commit(Frame):
    """A message that is predicted to commit (``outcome`` is ``None``), or its answer; or a
    confirmation, which has none.
    """

    corr: int = 0
    records: frozenset[Key] = frozenset()
    outcome: CommitOutcome | None = None
    request: str = ""
    """The COMMIT's name in the history."""


class Postgres:
    """The protocol PostgreSQL, as the wire reads it."""

    name = "postgres"
    steps = STEPS

    def learn(self, names: Mapping[str, str]) -> None:
        """Do nothing: there are no topics."""

    def ledger(self, key: str, identity: Identity | None) -> Ledger:  # noqa: ARG002 - foreign records are not looked for in statements
        """Make the bookkeeping of a cell."""
        return Ledger(key)

    def session(self, conn: int, *, limit: int) -> PostgresSession:
        """Return the state of a new connection."""
        return PostgresSession(conn, limit)


class OthersPostgres(Postgres):
    """The same, of programs that are somebody else's."""

    name = "others-postgres"

    def session(self, conn: int, *, limit: int) -> PostgresSession:
        """Return the state of a new connection."""
        return PostgresSession(conn, limit, foreign=True)


class PostgresSession(Listening[Commit]):
    """The state of one connection, as far as the wire needs it to see what is committed. At its end
    the server rolls the open transaction back, as every transaction without a commit.
    """

    immovable = "belongs to its connection, as a transaction does"
    kept = (Frame, Unframed, Opaque)
    unreadable = (messages.NotAMessageError,)

    def __init__(self, conn: int, limit: int, *, foreign: bool = False) -> None:
        """``foreign``: the program is somebody else's, whose every commit counts."""
        super().__init__()
        self._conn = conn
        self._limit = limit
        self._foreign = foreign
        self._started = False
        self._reads_changes = False
        """Whether it reads the log of changes, by a replication slot."""
        self._wants_encryption: int | None = None
        self._asked = 0
        self._course: OpenStatements[Commit] = OpenStatements()
        self._records: set[Key] = set()
        """Written since the transaction began."""
        self._implicit = False
        """Something was run outside a block that is not committed yet: it will be by the Sync
        behind it.
        """
        self._statements: dict[bytes, bytes] = {}
        self._portals: dict[bytes, tuple[bytes, frozenset[Key]]] = {}

    # -- messages ----------------------------------------------------------------------------------

    def _next(self, way: Direction, data: Data) -> Fed:
        """Find the next message."""
        return self._request(data) if way is Direction.REQUEST else self._response(data)

    def _request(self, data: Data) -> Fed:
        if not self._started:
            return self._start(data)
        if len(data) < messages.HEAD_BYTES:
            return Need(messages.HEAD_BYTES)
        kind, size = messages.message(bytes(data[: messages.HEAD_BYTES]))
        return (
            _login(kind, size, data, self._limit)
            if kind in messages.LOGIN
            else self._statement(kind, size, data)
        )

    def _statement(self, kind: int, size: int, data: Data) -> Fed:
        confirms = (messages.COPY_DATA, messages.CONFIRMATION_BYTES)
        if kind not in messages.READ and not (self._reads_changes and (kind, size) == confirms):
            return Unframed(size)
        if size > self._limit:
            self._course.unread()
            if kind == _QUERY:
                self._course.end()
            return Unframed(size, f"{size} bytes are above the limit of {self._limit}")
        if len(data) < size:
            return Need(size)
        return self._hear(kind, bytes(data[messages.HEAD_BYTES : size]), size) or Unframed(size)

    def _start(self, data: Data) -> Fed:
        """What a client says first gives its name."""
        if len(data) < messages.START_BYTES:
            return Need(messages.START_BYTES)
        size, code = messages.start(bytes(data[: messages.START_BYTES]))
        if len(data) < size:
            return Need(size)
        self._wants_encryption = code if code in messages.ENCRYPTION else None
        if code == messages.STARTUP:
            self._started = True
            told = messages.parameters(bytes(data[:size]))
            self._owner = told.get("application_name", "")
            self._reads_changes = "replication" in told
            self._course.end()  # when it is let in, the server is ready
        return Secure(size) if code == messages.TLS else Unframed(size)

    def _hear(self, kind: int, body: bytes, size: int) -> Commit | None:
        """Take in a message; return the commit that it is predicted to be, if any."""
        match chr(kind):
            case "Q":
                return self._query(body, size)
            case "P":
                name, statement = messages.names(body)
                self._statements[name] = statement
            case "B":
                portal, name = messages.names(body)
                text = self._statements.get(name, b"")
                self._portals[portal] = (
                    text,
                    frozenset(messages.records_in(body) | messages.records_in(text)),
                )
            case "E":
                return self._execute(body.partition(b"\0")[0], size)
            case "C":
                closed = body[1:].partition(b"\0")[0]
                if body[:1] == b"S":
                    self._statements.pop(closed, None)
                else:
                    self._portals.pop(closed, None)
            case "S":
                return self._sync(size)
            case "d" if body.startswith(messages.CONFIRMS):
                self._asked += 1
                return self._commit(size, self._asked, frozenset(), str(Database.CONFIRMATION))
            case "F":
                self._course.end()
        return None

    def _query(self, body: bytes, size: int) -> Commit | None:
        """Hear a text of statements. Those outside a block are one transaction, which the last of
        them commits.
        """
        does = statements.read(body[:-1])
        self._records |= messages.records_in(body)
        commits = [number for number, each in enumerate(does) if each.commits]
        for each in does:
            self._does(each)
        if does and not commits and self._commits_by_itself:
            commits.append(len(does) - 1)
        self._implicit = False
        commit = self._commit_of(size) if commits else None
        if commit is not None and len(commits) > 1:
            commit.because = "one text of statements commits more than once"
        cycle = self._course.begin()
        cycle.asked.extend(
            (each.commits, commit if commits and number == commits[-1] else None)
            for number, each in enumerate(does)
        )
        self._course.end()
        return commit

    def _execute(self, portal: bytes, size: int) -> Commit | None:
        text, records = self._portals.get(portal, (b"", frozenset()))
        does = next(iter(statements.read(text)), Does.NOTHING)
        self._records |= records
        self._does(does)
        commit = self._commit_of(size) if does.commits else None
        self._course.begin().asked.append((does.commits, commit))
        return commit

    def _sync(self, size: int) -> Commit | None:
        """Read a Sync. Outside of a transaction block it commits the statements before it."""
        commit = self._commit_of(size) if self._commits_by_itself else None
        self._implicit = False
        self._course.end(commit)
        return commit

    @property
    def _commits_by_itself(self) -> bool:
        """Whether what was run outside a block is committed behind it, and a frame."""
        return self._implicit and bool(self._foreign or self._records)

    def _does(self, does: Does) -> None:
        """Take note of what a statement does to the transaction."""
        course = self._course
        if does in (Does.NOTHING, Does.READS):
            writes = does is Does.NOTHING or not self._foreign
            self._implicit = self._implicit or (writes and not course.in_block)
            return
        if does.ends and not does.commits:
            self._records.clear()
        course.in_block = does.leaves_open
        self._implicit = False

    def _commit_of(self, size: int) -> Commit:
        """Make a commit of what was written so far; the next transaction has nothing yet."""
        records = frozenset(self._records)
        self._records.clear()
        self._asked += 1
        return self._commit(size, self._asked, records, id=self._asked)

    def _response(self, data: Data) -> Fed:
        wanted, self._wants_encryption = self._wants_encryption, None
        if (
            wanted is not None
            and (answered := messages.encrypts(wanted, bytes(data[:1]))) is not None
        ):
            return Secure(1) if answered else Unframed(1)
        if len(data) < messages.HEAD_BYTES:
            return Need(messages.HEAD_BYTES)
        kind, size = messages.message(bytes(data[: messages.HEAD_BYTES]))
        return (
            _login(kind, size, data, self._limit)
            if kind in messages.LOGIN
            else self._said_of(kind, size, data)
        )

    def _said_of(self, kind: int, size: int, data: Data) -> Fed:
        if kind not in messages.ANSWERS or size > self._limit:
            return Unframed(size)
        if len(data) < size:
            return Need(size)
        said = self._said(kind, bytes(data[messages.HEAD_BYTES : size]))
        if not said.commits:
            return Unframed(size, said.because)
        ids = tuple(each.corr for each in said.commits)
        records = frozenset[Key]().union(*(each.records for each in said.commits))
        return self._commit(
            size, ids[0], records, answers=ids, outcome=said.outcome, because=said.because
        )

    def _said(self, kind: int, body: bytes) -> AnswerMeaning[Commit]:
        match chr(kind):
            case "E":
                return self._course.refused()
            case "Z":
                return self._course.ready(body[:1])
            case "C":
                return self._course.done(body.rstrip(b"\0"))
            case _:
                return self._course.done(b"")

    def _commit(
        self, size: int, number: int, records: frozenset[Key], step: str = _COMMIT, **more: Any
    ) -> Commit:
        # its size in the history is what stands behind the first four bytes
        facts: dict[str, object] = {
            "version": VERSION,
            "corr": number,
            "size": size - _LENGTH_BYTES,
        }
        return Commit(
            step,
            size,
            head=size,
            facts=facts,
            corr=number,
            records=records,
            request=f"{self._conn}:{number}",
            **more,
        )

    # -- what they are about -----------------------------------------------------------------------

    def read(self, frame: Commit, data: bytes | None, ledger: Ledger) -> Insight:  # noqa: ARG002 - it was heard
        """Say whose records a COMMIT commits; of an answer, also what else than that has become of
        them.
        """
        failed = None if frame.outcome == COMMITTED else frame.outcome
        return Insight(Subject(_of(frame, ledger)), error=failed)

    def sending(self, frame: Commit) -> None:
        """Do nothing: the frame was heard, and nothing is heard behind it before it goes."""

    def settled(self, frame: Commit, ledger: Ledger | None, *, reached: bool) -> Iterable[Event]:
        """Return one line for each record."""
        if ledger is None or not isinstance(frame, Commit):
            return ()
        return [
            kinds.DatabaseCommit(
                record=record, request=frame.request, outcome=frame.outcome, reached=reached
            )
            for record in sorted(_of(frame, ledger))
        ]

    # -- what can be done to it --------------------------------------------------------------------

    def refuse(self, frame: Commit, data: bytes, error: str) -> bytes:  # noqa: ARG002 - none of them can
        """Raise UnableError: if the commit did not reach the server, its transaction is still open,
        so a refusal would be wrong.

        Raises:
            UnableError: always.
        """
        raise UnableError(f"a {frame.step} cannot be refused by {error}")


def _login(kind: int, size: int, data: Data, limit: int) -> Fed:
    """Look whether it can be; nothing of it is kept."""
    if size > limit or len(data) >= size:
        return Unframed(size, messages.why_not(kind, bytes(data[messages.HEAD_BYTES : size])))
    return Need(size)


def _of(frame: Commit, ledger: Ledger) -> frozenset[str]:
    return frozenset(record for key, record in frame.records if key == ledger.key)
