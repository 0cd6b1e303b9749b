"""What each reader and writer of logs was seen to do, session by session, by the lines of the wire.

A *session* of a reading connection begins whenever its stage asks for a saved position: that may
follow a new assignment, after which the reader may go on anywhere. A reader of a stage that never
asks for one may place itself as it likes, so its sessions are not judged.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from harness.model import events as kinds
from harness.model.events import ConnPhase, Direction, NodePhase
from harness.model.requests import Request

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from harness.model.events import Event
    from harness.model.history import History

Connection: TypeAlias = tuple[str, int | None]
"""The wire that wrote a line, and its number of the connection."""
Log: TypeAlias = tuple[str, int]
"""Topic and partition."""
Saved: TypeAlias = tuple[str, str, int]
"""Group, topic and partition."""
NOBODY: Final = ""
"""The stage of a connection that no line names."""


@dataclass(slots=True)
class GivenRecord:
    """A record that a reader was given, and when it had asked for it (ns); ``None``: unknown."""

    line: kinds.Fetched
    asked: int | None


@dataclass(slots=True)
class GivenRange:
    """What one connection was given of one partition in one session, in order."""

    role: str
    log: Log
    given: list[GivenRecord] = field(default_factory=list)

    @property
    def offsets(self) -> set[int]:
        """The offsets that were given."""
        return {int(each.line.offset or 0) for each in self.given}


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A write that its broker has acknowledged, and that its writer was told of."""

    role: str
    conn: Connection
    sent: kinds.Sent
    log: Log
    offset: int
    t: int
    """When the writer was told (ns); in a transaction, when it was told of the commit."""


@dataclass(frozen=True, slots=True)
class Position:
    """A position that a group has saved: asked for at ``asked``, saved by ``t`` (ns)."""

    offset: int
    asked: int
    t: int


@dataclass(slots=True)
class _Open:
    """A transaction that has not ended: its writes, and the positions that it would save."""

    writes: list[Acknowledged] = field(default_factory=list)
    positions: list[tuple[Saved, Position]] = field(default_factory=list)


class Sessions:
    """The sessions of one cell. ``first``: when its history begins; sentences count from there."""

    def __init__(self, history: History) -> None:
        self.first = 0
        self.stretches: dict[tuple[Connection, Log, int | None], GivenRange] = {}
        """By connection, log and number of the session; ``None``: its request was not seen."""
        self.writes: list[Acknowledged] = []
        self.positions: dict[Saved, list[Position]] = defaultdict(list)
        """In the order in which they were saved."""
        self.groups: dict[str, set[str]] = defaultdict(set)
        """By stage: the groups for which it saves positions."""
        self.begins: dict[tuple[str, Saved], Position] = {}
        """By stage and log: the last position that was saved before its programs were started the
        last time, while none of its connections was open.
        """
        self.placed: set[str] = set()
        """The stages that ask for a saved position."""
        self._roles: dict[Connection, str] = {}
        self._alive: dict[str, set[Connection]] = defaultdict(set)
        self._number: dict[str, int] = defaultdict(int)
        self._requests: dict[tuple[Connection, int | None], tuple[int, int]] = {}
        self._answering: dict[Connection, tuple[int, int]] = {}
        self._sent: dict[tuple[str, str, str], list[kinds.Sent]] = defaultdict(list)
        self._asked: dict[tuple[str, str | None, str, int], kinds.Committed] = {}
        self._open: dict[str, _Open] = defaultdict(_Open)
        self._ends: dict[tuple[str, str | None], kinds.EndTxn] = {}
        for event in history.events:
            self.first = min(self.first or event.t, event.t)
            self._take(event)
        self.writes.sort(key=lambda write: write.sent.t)
        for saved in self.positions.values():
            saved.sort(key=lambda position: position.t)

    def seconds(self, t: int) -> str:
        """Return a moment, counted from the beginning of the history."""
        return f"at {(t - self.first) / 1e9:.3f} s"

    def read_by(self, role: str, log: Log) -> Iterator[GivenRange]:
        """Return what a stage was given of a log."""
        return (each for each in self.stretches.values() if (each.role, each.log) == (role, log))

    def only_group(self, role: str) -> str | None:
        """Return the one group for which a stage saves positions; ``None``: it has none, or
        several.
        """
        groups = self.groups[role]
        return next(iter(groups)) if len(groups) == 1 else None

    def saved_before(self, role: str, log: Log, t: int) -> Position | None:
        """Return the position that a stage's group had saved before a moment; ``None`` if it had
        saved none, or has several groups.
        """
        group = self.only_group(role)
        saved = [] if group is None else self.positions.get((group, *log), [])
        return next((each for each in reversed(saved) if each.t < t), None)

    def _take(self, event: Event) -> None:
        match event:
            case kinds.Conn():
                self._take_connection(event)
            case kinds.Node(phase=NodePhase.STARTED):
                self._take_start(event.role)
            case kinds.Frame():
                self._take_frame(event)
            case kinds.Fetched(reached=True):
                self._take_given(event)
            case kinds.Sent():
                self._sent[event.by, event.request, event.record].append(event)
            case kinds.ProduceAnswer(error=0, reached=True):
                self._take_write(event)
            case kinds.Committed() | kinds.CommitAnswer():
                self._take_position(event)
            case kinds.EndTxn() | kinds.EndTxnAnswer() | kinds.InitProducer():
                self._take_end(event)

    def _take_connection(self, event: kinds.Conn) -> None:
        conn, role = (event.by, event.conn), event.role or NOBODY
        if event.phase == ConnPhase.OPEN:
            self._roles[conn] = role
            self._alive[role].add(conn)
        elif event.phase == ConnPhase.CLOSE:
            self._alive[self._roles.get(conn, role)].discard(conn)

    def _take_start(self, role: str) -> None:
        if self._alive[role]:
            return  # a part of the stage lives on, and with it what it has read
        for log, saved in self.positions.items():
            if log[0] in self.groups[role]:
                self.begins[role, log] = max(saved, key=lambda position: position.t)

    def _take_frame(self, event: kinds.Frame) -> None:
        conn = (event.by, event.conn)
        role = self._roles.setdefault(conn, str(event.role or NOBODY))
        if event.api == Request.OFFSET_FETCH and event.dir == Direction.REQUEST:
            self.placed.add(role)
            self._number[role] += 1
        elif event.api == Request.FETCH and event.dir == Direction.REQUEST:
            self._requests[conn, event.corr] = self._number[role], event.t
        elif event.api == Request.FETCH and (asked := self._requests.pop((conn, event.corr), None)):
            self._answering[conn] = asked

    def _take_given(self, event: kinds.Fetched) -> None:
        if event.topic is None or event.at is None:
            return
        conn = (event.by, event.conn)
        role, log = self._roles.get(conn, NOBODY), (event.topic, event.at[0])
        number, asked = self._answering.get(conn, (None, None))
        stretch = self.stretches.setdefault((conn, log, number), GivenRange(role, log))
        stretch.given.append(GivenRecord(event, asked))

    def _take_write(self, event: kinds.ProduceAnswer) -> None:
        asked = self._sent.get((event.by, event.request, event.record), [])
        # of a record that stands twice in one request the answer does not say which is where
        if len(asked) != 1 or event.offset is None or event.offset < 0:
            return
        [sent] = asked
        if sent.topic is None or sent.partition is None:
            return
        conn = (event.by, _number(sent.request))
        write = Acknowledged(
            self._roles.get(conn, NOBODY),
            conn,
            sent,
            (sent.topic, sent.partition),
            event.offset,
            event.t,
        )
        if sent.transactional_id is not None:
            self._open[sent.transactional_id].writes.append(write)
        elif not sent.transactional:
            self.writes.append(write)

    def _take_position(self, event: kinds.Committed | kinds.CommitAnswer) -> None:
        key = (event.by, event.request, event.topic or "", event.partition)
        if isinstance(event, kinds.Committed):
            self._asked[key] = event
            return
        asked = self._asked.get(key)
        if asked is None or event.error != 0 or asked.group is None or asked.topic is None:
            return
        role = self._roles.get((event.by, _number(event.request)), NOBODY)
        self.groups[role].add(asked.group)
        saved = (asked.group, asked.topic, asked.partition)
        position = Position(asked.offset, asked.t, event.t)
        if asked.transactional_id is None:
            self.positions[saved].append(position)
        else:
            self._open[asked.transactional_id].positions.append((saved, position))

    def _take_end(self, event: kinds.EndTxn | kinds.EndTxnAnswer | kinds.InitProducer) -> None:
        """Take what a transaction holds as done when its writer is told of the commit. Whoever
        begins anew, or aborts, has given it up; where no answer came, nobody knows.
        """
        if isinstance(event, kinds.EndTxn):
            self._ends[event.by, event.request] = event
            return
        if isinstance(event, kinds.InitProducer):
            self._open.pop(event.transactional_id or "", None)
            return
        end = self._ends.get((event.by, event.request))
        if end is None or event.error != 0:
            return
        held = self._open.pop(end.transactional_id, None)
        if held is None or not end.commit or not event.reached:
            return
        self.writes += [
            Acknowledged(w.role, w.conn, w.sent, w.log, w.offset, event.t) for w in held.writes
        ]
        for saved, position in held.positions:
            self.positions[saved].append(Position(position.offset, position.asked, event.t))


def _number(request: str | None) -> int | None:
    """Return the number of the connection of a request (``conn:corr``)."""
    number = (request or "").partition(":")[0]
    return int(number) if number.isdigit() else None


def by_log(writes: Iterable[Acknowledged]) -> dict[Log, list[Acknowledged]]:
    """Return acknowledged writes by their logs."""
    found: dict[Log, list[Acknowledged]] = defaultdict(list)
    for write in writes:
        found[write.log].append(write)
    return found
