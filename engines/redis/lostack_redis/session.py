"""The state of one RESP connection: its client, the commands that wait for an answer, and its open
transaction. And what a cell's connections have in common: which record each name stands for.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from harness.protocols.acts import Act
from harness.protocols.queues import (
    Ledger,
    QueueProtocol,
    QueueSession,
    remember,
    subject_of,
)
from harness.protocols.telling import About, line
from harness.wire.protocol import Frame, Insight, Need, Opaque, UnableError
from harness.wire.rules import Direction, Subject
from lostack_redis import resp
from lostack_redis.reading import given, kept, key_of, sent, step_of, taken
from lostack_redis.resp import NotRespError, Reader, Refusal, ShortError
from lostack_redis.steps import CONFIRMS, SCRIPTS, STEPS, Command

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from harness.model.events import Event
    from harness.model.identity import Identity
    from harness.wire.protocol import Data, Fed
    from lostack_redis.reading import CarriedMessage
    from lostack_redis.resp import Value

_REPLICATION: Final = ("SYNC", "PSYNC", "MONITOR")
_CONFIRMED: Final = tuple(str(each).lower().encode() for each in CONFIRMS)
_MESSAGES: Final = (b"message", b"pmessage")


@dataclass(frozen=True, slots=True)
class Names(Ledger):
    """The bookkeeping of one cell. Another connection than the one that was given a message may
    acknowledge it.
    """

    records: OrderedDict[tuple[bytes, bytes], str] = field(default_factory=OrderedDict)
    """Which record each message is, by its key and its name."""
    tags: OrderedDict[bytes, str] = field(default_factory=OrderedDict)
    """The same of Kombu's delivery tags."""

    def of(self, carried: CarriedMessage) -> str | None:
        """Return the record of a message, and remember it."""
        record = self.record(carried.content.body, carried.content.properties)
        if record is not None and carried.name is not None:
            remember(self.records, (carried.key, carried.name), record)
            if carried.content.tag is not None:
                remember(self.tags, carried.content.tag, record)
        return record

    def called(self, key: bytes, name: bytes) -> str | None:
        """Return the record of a message by its name."""
        return self.records.get((key, name)) or self.tags.get(name)


@dataclass(frozen=True, slots=True)
class Did:
    """What a frame does to one record."""

    act: Act
    record: str
    key: bytes
    attempt: str | None = None
    again: bool = False
    name: bytes | None = None
    """By which name a hash keeps the message, or its delivery tag says that it will."""


@dataclass(slots=True, eq=False)
class RespFrame(Frame):
    """One command or answer. ``asked``: the command that an answer is for."""

    way: Direction = Direction.REQUEST
    words: tuple[bytes, ...] = ()
    value: Value = None
    number: int = 0
    asked: RespFrame | None = None
    transaction: str | None = None
    inside: list[RespFrame] = field(default_factory=list)
    """Of the end of a transaction, the commands in it."""
    subject: Subject = field(default_factory=Subject)
    did: tuple[Did, ...] = ()


class Resp(QueueProtocol):
    """The protocol RESP, as the wire reads it."""

    name = "resp"
    steps = STEPS

    def ledger(self, key: str, identity: Identity | None) -> Names:  # noqa: ARG002 - keys need no cell
        """Make the bookkeeping of a cell."""
        return Names(identity)

    def session(self, conn: int, *, limit: int) -> RespSession:
        """Return the state of a new connection."""
        return RespSession(conn, limit)


class RespSession(QueueSession[RespFrame]):
    """The state of one connection."""

    immovable = "belongs to its connection: an answer names no command"

    def __init__(self, conn: int, limit: int) -> None:
        super().__init__(conn, limit)
        self._asked: deque[RespFrame] = deque()
        """The commands that are not answered, the oldest first."""
        self._version = "2"
        self._multi: RespFrame | None = None
        self._inside: list[RespFrame] = []

    # -- frames ------------------------------------------------------------------------------------

    def _next(self, way: Direction, data: Data) -> Fed:
        """Find the end of the next value."""
        if not len(data):
            return Need(1)
        reader = Reader(data)
        try:
            value, size = reader.value(), reader.at
        except NotRespError as error:
            return Opaque(str(error))
        except ShortError as short:
            if short.need <= self._limit:
                return Need(max(short.need, len(data) + 1))
            if not short.whole:
                return Opaque(f"a value above the limit of {self._limit} bytes")
            value, size = _beginning(data), short.need
        if way is Direction.REQUEST:
            return self._command(resp.words(value), size)
        return self._answer(reader.data, value, size)

    def _command(self, words: tuple[bytes, ...], size: int) -> Fed:
        if not words:
            return Opaque("a client that sends something else than commands")
        step = step_of(words)
        if step in _REPLICATION:
            return Opaque(f"{step}: a connection of a replica or a monitor is not read")
        self._numbers[Direction.REQUEST] += 1
        number = self._numbers[Direction.REQUEST]
        if step == Command.MULTI:
            self._multi, self._inside = None, []
        transaction = self._multi.transaction if self._multi else None
        if step == Command.MULTI:
            transaction = f"{self._conn}.{number}"
        self._name(step, words)
        frame = self._frame(step, size, number, Direction.REQUEST, None)
        frame.words, frame.transaction = words, transaction
        if transaction is not None:
            frame.facts["transaction"] = transaction
        if step in (Command.EXEC, Command.DISCARD):
            frame.inside, self._multi, self._inside = self._inside, None, []
        elif step == Command.MULTI:
            self._multi = frame
        elif self._multi is not None:
            self._inside.append(frame)
        return frame

    def _answer(self, data: Data, value: Value, size: int) -> Fed:
        asked = self._asked[0] if self._asked else None
        if bytes(data[:1]) == b">" or _is_pushed(value, asked):
            asked = None
        self._numbers[Direction.RESPONSE] += asked is None
        number = asked.number if asked else -self._numbers[Direction.RESPONSE]
        step = asked.step if asked else str(Command.PUSHED)
        frame = self._frame(step, size, number, Direction.RESPONSE, asked)
        frame.value = value
        if asked is not None:
            frame.transaction = asked.transaction
            if step == Command.HELLO and not isinstance(value, Refusal):
                self._version = "3" if asked.words[1:2] == (b"3",) else "2"
        return frame

    def _frame(
        self, step: str, size: int, number: int, way: Direction, asked: RespFrame | None
    ) -> RespFrame:
        return RespFrame(
            step,
            size,
            number if way is Direction.REQUEST else None,
            (asked.number,) if asked else (),
            head=size,
            facts={"version": self._version, "corr": number},
            way=way,
            number=number,
            asked=asked,
        )

    def _name(self, step: str, words: tuple[bytes, ...]) -> None:
        """Take note of the client's name, or else of the first key that it uses."""
        upper = [word.upper() for word in words]
        said = None
        if step == Command.HELLO and b"SETNAME" in upper[2:]:
            said = words[upper.index(b"SETNAME", 2) + 1 :][:1]
        elif step == Command.CLIENT and upper[1:2] == [b"SETNAME"]:
            said = words[2:3]
        if said:
            self._owner = said[0].decode("utf-8", "replace")
        elif self._owner is None and (key := key_of(step, words)) is not None:
            self._owner = key.decode("utf-8", "replace")

    def taken(self, way: Direction, size: int) -> None:
        """Take note that bytes have left the buffer: the next value may be looked for."""
        frame = self._heard.get(way)
        if frame is not None and frame.asked is not None and frame.asked in self._asked:
            self._asked.popleft()
        super().taken(way, size)

    # -- what they are about -----------------------------------------------------------------------

    def read(self, frame: RespFrame, data: bytes | None, ledger: Names) -> Insight:
        """Say which records a frame carries, acknowledges or commits."""
        if data is None and frame.head:
            return self.too_large(frame)
        if frame.asked is None:
            self._read_command(frame, ledger)
            return Insight(frame.subject)
        refused = _refused(frame)
        if not refused:
            gave = tuple(_gave(frame, ledger))
            frame.did = gave
        frame.subject = _subject(frame.transaction, frame.did) if frame.did else frame.asked.subject
        return Insight(frame.subject, refused or 0)

    def _read_command(self, frame: RespFrame, ledger: Names) -> None:
        if frame.way is Direction.RESPONSE:
            return
        if frame.step in (Command.EXEC, Command.DISCARD):
            frame.did = tuple(_in_effect(frame.inside))
            every = (did for each in frame.inside for did in each.did)
            frame.subject = _subject(frame.transaction, every)
            return
        frame.did = tuple(_does(frame, ledger))
        held = [record for each in kept(frame.step, frame.words) if (record := ledger.of(each))]
        keys = (key_of(frame.step, frame.words),) if frame.did or held else ()
        records = [*(did.record for did in frame.did), *held]
        frame.subject = subject_of(frame.transaction, records, map(_text, keys))

    def sending(self, frame: RespFrame) -> None:
        """Remember a command that will be answered."""
        if frame.way is Direction.REQUEST:
            self._asked.append(frame)

    def settled(self, frame: RespFrame, ledger: Names | None, *, reached: bool) -> Iterable[Event]:
        """Return what the frame carried, now that its fate is known.

        A command in a transaction does nothing before its EXEC: only that has lines, unless the
        command itself was lost.
        """
        if ledger is None:
            return ()
        return tuple(_lines(self._conn, frame, reached=reached))

    # -- what can be done to it --------------------------------------------------------------------

    def refuse(self, frame: RespFrame, data: bytes, error: str) -> bytes:  # noqa: ARG002 - whatever it is
        """Raise UnableError: lostack refuses no command."""
        raise UnableError(f"lostack refuses no {frame.step} of Redis, also not by {error!r}")


def _beginning(data: Data) -> Value:
    """Return the words of a command whose last one is not complete, without that."""
    reader, found = Reader(data), list[resp.Value]()
    reader.at = bytes(data[: resp.LONGEST]).find(resp.END) + len(resp.END)
    while True:
        try:
            found.append(reader.value())
        except (ShortError, NotRespError):
            return found


def _is_pushed(value: Value, asked: RespFrame | None) -> bool:
    """Whether a value of RESP 2 is a message of a channel, or one more confirmation."""
    if asked is None:
        return True
    if not isinstance(value, list) or not value:
        return False
    confirmed = value[0] in _CONFIRMED and asked.step not in CONFIRMS
    return confirmed or (value[0] in _MESSAGES and asked.step in (*CONFIRMS, Command.PING))


def _does(frame: RespFrame, ledger: Names) -> Iterator[Did]:
    """Yield what a command does: what it sends, or what it acknowledges. A script sends each record
    among its arguments once.
    """
    told: set[str] = set()
    for carried in sent(frame.step, frame.words):
        record = ledger.of(carried)
        if record is not None and not (frame.step in SCRIPTS and record in told):
            told.add(record)
            content = carried.content
            yield Did(Act.SEND, record, carried.key, content.attempt, name=content.tag)
    if (off := taken(frame.step, frame.words)) is None:
        return
    for name in off.names:
        if (record := ledger.called(off.key, name)) is not None:
            yield Did(Act.ACK, record, off.key, name=name)
    for each in off.values:
        if (record := ledger.record(each.body, each.properties)) is not None:
            yield Did(Act.ACK, record, off.key)


def _gave(frame: RespFrame, ledger: Names) -> Iterator[Did]:
    if frame.asked is None:
        return
    for carried in given(frame.step, frame.asked.words, frame.value):
        if (record := ledger.of(carried)) is not None:
            yield Did(Act.GIVE, record, carried.key, again=carried.again)


def _in_effect(inside: Iterable[RespFrame]) -> Iterator[Did]:
    """Yield what the commands of a transaction do together.

    What is taken off a hash and put back into its list under the same delivery tag was neither
    acknowledged nor sent: Kombu gives it back.
    """
    every = [did for frame in inside for did in frame.did]
    off, back = (
        {did.name for did in every if did.act is act and did.name is not None}
        for act in (Act.ACK, Act.SEND)
    )
    yield from (did for did in every if did.name not in off & back)


def _subject(transaction: str | None, did: Iterable[Did]) -> Subject:
    did = tuple(did)
    return subject_of(transaction, (each.record for each in did), (_text(each.key) for each in did))


def _text(key: bytes | None) -> str | None:
    return None if key is None else key.decode("utf-8", "replace")


def _refused(frame: RespFrame) -> str | None:
    """Return the error of an answer; a transaction that was not executed is refused, too."""
    if isinstance(frame.value, Refusal):
        return frame.value.name
    if frame.step == Command.EXEC and frame.value is None:
        return "aborted"
    if frame.step == Command.EXEC and isinstance(frame.value, list):
        return next((each.name for each in frame.value if isinstance(each, Refusal)), None)
    return None


def _lines(conn: int, frame: RespFrame, *, reached: bool) -> Iterator[Event]:
    """Yield what a frame says of each record."""
    of = frame.asked or frame
    answered, ends = of is not frame, of.step in (Command.EXEC, Command.DISCARD)
    bound = of.transaction is not None and not ends
    if bound and (answered or reached):
        return
    error = _refused(frame) or 0
    if answered and frame.did and not error:  # what an answer gives
        yield from (_line(conn, frame, of, did, reached=reached) for did in frame.did)
        return
    if not ends or of.step == Command.EXEC:
        for did in of.did:
            yield _line(conn, frame, of, did, reached=reached, error=error)
    if ends:
        for record in sorted({did.record for did in of.did}):
            about = About(Act.COMMIT, conn, of.number, transaction=of.transaction)
            yield line(about, record, reached=reached, answered=answered, error=error)


def _line(
    conn: int,
    frame: RespFrame,
    of: RespFrame,
    did: Did,
    *,
    reached: bool,
    error: str | int = 0,
) -> Event:
    about = About(
        did.act,
        conn,
        of.number,
        _text(did.key),
        of.transaction,
        did.attempt,
        did.again,
        str(of.step).lower(),
    )
    answered = of is not frame and did.act is not Act.GIVE
    return line(about, did.record, reached=reached, answered=answered, error=error)
