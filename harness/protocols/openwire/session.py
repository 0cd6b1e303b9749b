"""The state of one OpenWire connection: its client, its requests, unacknowledged deliveries, and
open transactions.
"""

from __future__ import annotations

import struct
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from harness.protocols.acts import Act
from harness.protocols.openwire import reading
from harness.protocols.openwire.steps import ACTS, ANSWERS, ENDS, STEPS, TRANSACTION, Command, Kind
from harness.protocols.queues import (
    Ledger,
    OpenTransaction,
    QueueProtocol,
    QueueSession,
    remember,
    subject_of,
    subject_of_all,
)
from harness.protocols.telling import About, attempt_in, line
from harness.wire.protocol import (
    PLAIN,
    Frame,
    Insight,
    Need,
    Opaque,
    UnableError,
    Unframed,
)
from harness.wire.rules import Direction, Subject

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from harness.model.events import Event
    from harness.protocols.openwire.reading import CommandFields
    from harness.wire.protocol import Data, Fed


MOST_BYTES: Final = 1 << 30
HEAD: Final = 5
"""Bytes of length and type."""
LENGTH: Final = 4
DELIVERED, POISON, INDIVIDUAL, REDELIVERED, EXPIRED = 0, 1, 4, 3, 6
"""Types of acknowledgements that are not the ordinary one."""
NAMED_BY_LIBRARY: Final = "ID:"
"""The prefix of a client id that the library generated itself."""


@dataclass(slots=True, eq=False)
class OpenWireFrame(Frame):
    """One command. ``asked``: for an answer, the request. ``taken_off``: for an acknowledgement,
    the acknowledged deliveries.
    """

    way: Direction = Direction.REQUEST
    said: CommandFields = field(default_factory=lambda: reading.CommandFields(0))
    number: int = 0
    asked: OpenWireFrame | None = None
    taken_off: tuple[OpenWireFrame, ...] = ()
    subject: Subject = field(default_factory=Subject)
    attempt: str | None = None
    redelivered: bool = False


class OpenWire(QueueProtocol):
    """The protocol OpenWire, as the wire reads it."""

    name = "openwire"
    steps = STEPS

    def session(self, conn: int, *, limit: int) -> OpenWireSession:
        """Return the state of a new connection."""
        return OpenWireSession(conn, limit)


class OpenWireSession(QueueSession[OpenWireFrame]):
    """The state of one connection."""

    immovable = "belongs to its connection, as sessions, consumers and transactions do"
    unreadable = (reading.NotAFrameError,)

    def __init__(self, conn: int, limit: int) -> None:
        super().__init__(conn, limit)
        self._formats: dict[Direction, Mapping[str, Any]] = {}
        """What each side has said that it can do."""
        self._asked: OrderedDict[int, OpenWireFrame] = OrderedDict()
        self._given: defaultdict[str, OrderedDict[str, OpenWireFrame]] = defaultdict(OrderedDict)
        """By consumer: what was delivered and waits to be acknowledged, in order."""
        self._open: defaultdict[str, OpenTransaction[OpenWireFrame]] = defaultdict(OpenTransaction)

    # -- frames ------------------------------------------------------------------------------------

    def _next(self, way: Direction, data: Data) -> Fed:
        """Find the next command."""
        if len(data) < HEAD:
            return Need(HEAD)
        size, kind = int.from_bytes(data[:LENGTH]) + LENGTH, data[LENGTH]
        try:
            self._check_format(kind, size)
            if kind == Kind.KEEP_ALIVE_INFO:
                return Unframed(size)
            return self._made(way, size, reading.said(kind, memoryview(data)[HEAD:size]))
        except reading.ShortError:
            return (
                Need(min(size, 2 * len(data)))
                if len(data) < size
                else Opaque(f"a command of type {kind} that ends too soon")
            )

    def _check_format(self, kind: int, size: int) -> None:
        """Raise NotAFrameError where what the two have agreed on is not read here."""
        if not HEAD <= size <= MOST_BYTES:
            raise reading.NotAFrameError(f"a command of {size} bytes")
        if kind == Kind.WIREFORMAT_INFO or len(self._formats) < len(Direction):
            return
        for name in ("TightEncodingEnabled", "CacheEnabled", "SizePrefixDisabled"):
            if all(format_.get(name) for format_ in self._formats.values()):
                raise reading.NotAFrameError(
                    f"both sides use {name}, which the wire cannot read: switch it off on one side"
                )
        if (
            version := min(format_["version"] for format_ in self._formats.values())
        ) < reading.OLDEST:
            raise reading.NotAFrameError(
                f"version {version} cannot be read: use version {reading.OLDEST} or later"
            )

    def _made(self, way: Direction, size: int, said: CommandFields) -> OpenWireFrame:
        step = _step(way, said)
        self._numbers[way] += 1
        asked = None if said.answers is None else self._asked.get(said.answers)
        step = ANSWERS.get(Command(asked.step), step) if asked else step
        number = (
            asked.number
            if asked
            else said.number
            if way is Direction.REQUEST
            else -self._numbers[way]
        )
        name: int | str | None = said.number if way is Direction.REQUEST and said.asks else None
        answers: tuple[int | str, ...] = () if said.answers is None else (said.answers,)
        taken_off: tuple[OpenWireFrame, ...] = ()
        match step:
            case Command.WIREFORMAT_INFO:
                self._formats[way] = said.format
            case Command.CONNECTION_INFO if said.client and not said.client.startswith(
                NAMED_BY_LIBRARY
            ):
                self._owner = said.client
            case Command.MESSAGE_DISPATCH if said.message is not None:
                name = _delivery(said.consumer, said.message)
            case Command.MESSAGE_ACK:
                taken_off = self._about(said)
                answers = tuple(str(each.id) for each in taken_off)
        if self._owner is None and way is Direction.REQUEST and said.destination:
            self._owner = said.destination
        facts = {"version": self._version(), "corr": number} | {
            name: value
            for name, value in (
                ("destination", said.destination),
                ("transaction", said.transaction),
                ("consumer", said.consumer),
                ("message", said.message),
            )
            if value is not None
        }
        carries = said.kind in Kind.messages() or said.kind == Kind.MESSAGE_DISPATCH
        return OpenWireFrame(
            step,
            size,
            name,
            answers,
            head=size if carries else HEAD,
            facts=facts,
            way=way,
            said=said,
            number=number,
            asked=asked,
            taken_off=taken_off,
        )

    def _version(self) -> str:
        return str(min((format_["version"] for format_ in self._formats.values()), default="?"))

    def _about(self, said: CommandFields) -> tuple[OpenWireFrame, ...]:
        """Return the deliveries that an acknowledgement is about: one, or a range."""
        given = self._given.get(said.consumer or "")
        if given is None or said.message is None or said.message not in given:
            return ()
        if said.how == INDIVIDUAL:
            return (given[said.message],)
        upto = list(given)
        if said.first is not None and said.first not in given:
            return ()  # a broker looks for where the range begins, and finds none
        first = 0 if said.first is None else upto.index(said.first)
        return tuple(given[each] for each in upto[first : upto.index(said.message) + 1])

    # -- what they are about -----------------------------------------------------------------------

    def read(self, frame: OpenWireFrame, data: bytes | None, ledger: Ledger) -> Insight:
        """Say which records a command carries, acknowledges or commits."""
        said = frame.said
        if frame.step in (Command.MESSAGE, Command.MESSAGE_DISPATCH):
            return self._content(frame, data, ledger)
        if said.answers is not None:
            frame.subject = frame.asked.subject if frame.asked else Subject()
            return Insight(frame.subject, said.error or 0)
        if said.transaction is not None and frame.step in ANSWERS:
            found = self._open.get(said.transaction, OpenTransaction[OpenWireFrame]())
            frame.subject = subject_of(said.transaction, found.records, found.topics)
        else:
            subjects = (each.subject for each in frame.taken_off)
            frame.subject = subject_of_all(said.transaction, subjects)
        return Insight(frame.subject)

    def _content(self, frame: OpenWireFrame, data: bytes | None, ledger: Ledger) -> Insight:
        if data is None:
            return self.too_large(frame)
        if frame.said.message is None:
            return Insight()
        try:
            content = reading.content(data)
        except (reading.NotAFrameError, reading.ShortError, struct.error) as error:
            return Insight(because=f"a message that cannot be read: {error}", voids=True)
        if content.compressed:
            return Insight(because="a compressed message is not read", voids=True)
        record = ledger.record(content.body, content.properties)
        frame.attempt, frame.redelivered = attempt_in(content.properties), content.deliveries > 0
        frame.subject = subject_of(
            frame.said.transaction,
            () if record is None else (record,),
            (frame.said.destination,),
        )
        return Insight(frame.subject)

    def sending(self, frame: OpenWireFrame) -> None:
        """Remember a frame that will be answered. If there are too many, the oldest is
        forgotten.
        """
        if frame.way is Direction.REQUEST and frame.said.asks:
            remember(self._asked, frame.said.number, frame)
        elif frame.step == Command.MESSAGE_DISPATCH and frame.said.message is not None:
            remember(self._given[frame.said.consumer or ""], frame.said.message, frame)

    def settled(
        self, frame: OpenWireFrame, ledger: Ledger | None, *, reached: bool
    ) -> Iterable[Event]:
        """Return what the command carried, now that its fate is known."""
        if reached:
            self._passed_on(frame)
        if frame.asked is not None:
            self._asked.pop(frame.said.answers or 0, None)
        return () if ledger is None else tuple(_lines(self._conn, frame, reached=reached))

    def _passed_on(self, frame: OpenWireFrame) -> None:
        for each in frame.taken_off:
            self._given[each.said.consumer or ""].pop(each.said.message or "", None)
        transaction = frame.said.transaction
        if transaction is None:
            return
        if frame.step in ENDS:
            over = self._open.pop(transaction, OpenTransaction[OpenWireFrame]())
            if frame.step == Command.ROLLBACK:  # the library gives again what it has
                for each in over.taken_off:
                    remember(self._given[each.said.consumer or ""], each.said.message or "", each)
        elif frame.step in (Command.MESSAGE, Command.MESSAGE_ACK):
            self._open[transaction].add(frame.subject, frame.taken_off)

    # -- what can be done to it --------------------------------------------------------------------

    def refuse(self, frame: OpenWireFrame, data: bytes, error: str) -> bytes:  # noqa: ARG002 - its number is enough
        """Return the EXCEPTION_RESPONSE that refuses a request.

        Raises:
            UnableError: the command requests no answer, or is never refused by this error.
        """
        if (
            error not in STEPS.get((frame.step, Direction.REQUEST), PLAIN).errors
            or not frame.said.asks
        ):
            raise UnableError(
                f"a {frame.step} that requests {'an' if frame.said.asks else 'no'} answer cannot "
                f"be refused by {error!r}"
            )
        traced = all(format_.get("StackTraceEnabled") for format_ in self._formats.values())
        body = struct.pack(">BixiB", Kind.EXCEPTION_RESPONSE, 0, frame.said.number, 1)
        body += (
            _text("java.io.IOException") + _text(error) + (b"\0\0\0" if traced else b"")
        )  # a trace of no lines, and no cause
        return struct.pack(">i", len(body)) + body

    def silence_s(self, way: Direction) -> float | None:
        """Return the time-out on which both sides have agreed. Either may close the connection
        after it.
        """
        del way
        told = [format_.get("MaxInactivityDuration", 0) for format_ in self._formats.values()]
        return min(told) / 1000 if len(told) == len(Direction) and min(told) > 0 else None


def _step(way: Direction, said: CommandFields) -> Command:
    """Return what a command is called. Raises NotAFrameError where it cannot come this way."""
    try:
        if said.kind in Kind.messages():
            step = Command.MESSAGE
        elif said.kind in Kind.responses():
            step = Command.RESPONSE
        elif said.kind == Kind.TRANSACTION_INFO:
            step = TRANSACTION[said.how]
        elif said.kind == Kind.MESSAGE_ACK:
            step = (
                Command.DELIVERED_ACK
                if said.how in (DELIVERED, REDELIVERED)
                else Command.MESSAGE_ACK
            )
        else:
            step = Command[Kind(said.kind).name]
    except (ValueError, IndexError, KeyError):
        raise reading.NotAFrameError(f"a command of type {said.kind}, {said.how}") from None
    if (str(step), way) not in STEPS:
        raise reading.NotAFrameError(f"{step} as a {way}")
    return step


def _delivery(consumer: str | None, message: str) -> str:
    return f"{consumer}/{message}"


def _text(text: str) -> bytes:
    return b"\1" + struct.pack(">H", len(text)) + text.encode()


_TOLD: Final[Mapping[str, Act]] = {
    ACTS[Act.SEND]: Act.SEND,
    ACTS[Act.GIVE]: Act.GIVE,
    ACTS[Act.ACK]: Act.ACK,
    **dict.fromkeys(ENDS, Act.COMMIT),
}


def _lines(conn: int, frame: OpenWireFrame, *, reached: bool) -> Iterator[Event]:
    """Yield what a command, or the answer to one, says of each record."""
    of = frame.asked or frame
    if (act := _TOLD.get(of.step)) is None:
        return
    how = "nack" if of.said.how in (POISON, EXPIRED) else "ack"
    about = About(
        act,
        conn,
        of.number,
        of.said.destination,
        of.said.transaction,
        of.attempt,
        of.redelivered,
        how,
    )
    for record in sorted(frame.subject.records):
        yield line(
            about, record, reached=reached, answered=of is not frame, error=frame.said.error or 0
        )
