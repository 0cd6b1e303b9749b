"""The state of one STOMP connection: its client, frames that wait for a receipt, and unacknowledged
deliveries.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from harness.model.record import ATTEMPT_HEADER
from harness.protocols.acts import Act
from harness.protocols.queues import (
    Ledger,
    OpenTransaction,
    QueueProtocol,
    QueueSession,
    remember,
    subject_of,
    subject_of_all,
)
from harness.protocols.stomp import frames
from harness.protocols.stomp.steps import REFUSED, STEPS, Command
from harness.protocols.telling import About, line
from harness.wire.protocol import (
    PLAIN,
    AwaitAnswer,
    Frame,
    Immovable,
    Insight,
    Move,
    Need,
    Opaque,
    SendBytes,
    UnableError,
    Unframed,
)
from harness.wire.rules import Direction, Subject

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from harness.model.events import Event
    from harness.wire.protocol import Data, Fed

CONNECTING: Final = "connecting"
"""What CONNECTED answers, which names no receipt."""
_AMQ: Final = "/amq"
"""What stands in RabbitMQ before the name of a queue that is there already: in its MESSAGE frames
the same queue has no such name.
"""
_COMMANDS: Final = {
    way: frozenset(command for command in Command if (str(command), way) in STEPS)
    for way in Direction
}
_TOLD: Final = ("destination", "transaction", "subscription", "message-id", "receipt")
"""Headers that a frame's line in the history has, where it has them."""


@dataclass(slots=True, eq=False)
class StompFrame(Frame):
    """One frame. ``asked``: for a RECEIPT or ERROR, the frame that it answers; for a CONNECTED, the
    CONNECT.
    """

    way: Direction = Direction.REQUEST
    headers: dict[str, str] = field(default_factory=dict)
    body: tuple[int, int] = (0, 0)
    """Where it begins and ends."""
    number: int = 0
    asked: StompFrame | None = None
    taken_off: tuple[StompFrame, ...] = ()
    """Of an ACK or NACK, the messages that it is about."""
    subject: Subject = field(default_factory=Subject)


class Stomp(QueueProtocol):
    """The protocol STOMP, as the wire reads it."""

    name = "stomp"
    steps = STEPS

    def session(self, conn: int, *, limit: int) -> StompSession:
        """Return the state of a new connection."""
        return StompSession(conn, limit)


class StompSession(QueueSession[StompFrame]):
    """The state of one connection."""

    immovable = "belongs to its connection, as subscriptions and transactions do"
    unreadable = (frames.NotAFrameError,)

    def __init__(self, conn: int, limit: int) -> None:
        super().__init__(conn, limit)
        self._looked: dict[Direction, int] = dict.fromkeys(Direction, 0)
        """Up to where there is no null byte."""
        self._connect: dict[str, str] = {}
        self._beats: dict[Direction, float] = {}
        self._version = ""
        self._asked: OrderedDict[str, StompFrame] = OrderedDict()
        self._modes: dict[str, str] = {}
        """How each subscription acknowledges."""
        self._given: defaultdict[str, OrderedDict[str, StompFrame]] = defaultdict(OrderedDict)
        """By subscription: what was delivered and waits to be acknowledged, in order."""
        self._open: dict[str, OpenTransaction[StompFrame]] = {}

    # -- frames ------------------------------------------------------------------------------------

    def _next(self, way: Direction, data: Data) -> Fed:
        """Find the next frame, or the line end between two frames."""
        if not len(data):
            return Need(1)
        if data[:1] == b"\n":
            return Unframed(1)
        if data[:1] == b"\r":
            return (
                Need(2)
                if len(data) < 2  # noqa: PLR2004
                else Unframed(2)
                if data[1:2] == b"\n"
                else Opaque("a carriage return alone")
            )
        return self._frame(way, data)

    def taken(self, way: Direction, size: int) -> None:
        """Take note that bytes have left the buffer: the next frame may be looked for."""
        super().taken(way, size)
        self._looked[way] = 0

    def _frame(self, way: Direction, data: Data) -> Fed:
        head = frames.head(data, escaped=self._version != "1.0")
        if head is None:
            return Need(len(data) + 1)
        if head.command not in _COMMANDS[way]:
            raise frames.NotAFrameError(f"a command {head.command!r}")
        if head.body >= 0:
            end = head.size + head.body
        else:
            end = bytes(data).find(b"\0", max(head.size, self._looked[way]))
            if end < 0:
                self._looked[way] = len(data)
                if len(data) > self._limit:
                    raise frames.NotAFrameError(
                        f"a frame without content-length above the limit of {self._limit} bytes"
                    )
                return Need(len(data) + 1)
        return self._made(way, head, (head.size, end))

    def _made(self, way: Direction, head: frames.Head, body: tuple[int, int]) -> StompFrame:
        headers, command = head.headers, head.command
        self._numbers[way] += 1
        asked = None
        answers: tuple[str, ...] = ()
        name: str | None = headers.get("receipt")
        taken_off: tuple[StompFrame, ...] = ()
        match command:
            case Command.CONNECT | Command.STOMP:
                name = CONNECTING
                self._connect = headers
                self._owner = headers.get("client-id") or self._owner
            case Command.CONNECTED:
                asked, answers = self._asked.get(CONNECTING), (CONNECTING,)
                self._version = headers.get("version", "1.0")
                self._agree(headers.get("heart-beat", ""))
            case Command.RECEIPT | Command.ERROR if "receipt-id" in headers:
                asked, answers = self._asked.get(headers["receipt-id"]), (headers["receipt-id"],)
            case Command.SUBSCRIBE:
                self._modes[_subscription(headers)] = headers.get("ack", "auto")
            case Command.MESSAGE:
                waits = self._modes.get(_subscription(headers), "auto") != "auto"
                name = self._delivery(headers) if waits else None
            case Command.ACK | Command.NACK:
                taken_off = self._about(headers)
                answers = tuple(str(each.id) for each in taken_off)
        if (
            self._owner is None
            and command in (Command.SEND, Command.SUBSCRIBE)
            and "destination" in headers
        ):
            self._owner = headers["destination"].rpartition("/")[2]
        corr = (
            asked.number
            if asked
            else self._numbers[way]
            if way is Direction.REQUEST
            else -self._numbers[way]
        )
        facts = {"version": self._version, "corr": corr} | {
            each: headers[each] for each in _TOLD if each in headers
        }
        size = body[1] + 1
        return StompFrame(
            Command(command),
            size,
            name,
            answers,
            head=size,
            facts=facts,
            way=way,
            headers=headers,
            body=body,
            number=corr,
            asked=asked,
            taken_off=taken_off,
        )

    def _agree(self, beats: str) -> None:
        """Take note of how often each side will say something."""
        client, server = _milliseconds(self._connect.get("heart-beat", "")), _milliseconds(beats)
        for way, (gives, wants) in {
            Direction.REQUEST: (client[0], server[1]),
            Direction.RESPONSE: (server[0], client[1]),
        }.items():
            if gives and wants:
                self._beats[way] = max(gives, wants) / 1000

    def _about(self, headers: Mapping[str, str]) -> tuple[StompFrame, ...]:
        """Return the deliveries that an ACK is about: one, or all up to it. Before 1.2 it names its
        subscription, too.
        """
        name = headers.get("id" if self._version == "1.2" else "message-id", "")
        for subscription, given in self._given.items():
            if headers.get("subscription", subscription) != subscription and self._version != "1.2":
                continue
            names = [self._name(each.headers) for each in given.values()]
            if name in names:
                upto = list(given.values())[: names.index(name) + 1]
                return tuple(
                    upto[-1:] if self._modes.get(subscription) == "client-individual" else upto
                )
        return ()

    def _name(self, headers: Mapping[str, str]) -> str | None:
        """Return by which name a MESSAGE is acknowledged."""
        return (headers.get("ack") if self._version == "1.2" else None) or headers.get("message-id")

    def _delivery(self, headers: Mapping[str, str]) -> str | None:
        """Return that name as one of the whole connection."""
        name = self._name(headers)
        return (
            name if name is None or self._version == "1.2" else f"{_subscription(headers)}/{name}"
        )

    # -- what they are about -----------------------------------------------------------------------

    def read(self, frame: StompFrame, data: bytes | None, ledger: Ledger) -> Insight:
        """Say which records a frame carries, acknowledges or commits."""
        error = _error(frame)
        if frame.step in (Command.SEND, Command.MESSAGE):
            if data is None:
                return self.too_large(frame)
            record = ledger.record(data[slice(*frame.body)], frame.headers)
            frame.subject = subject_of(
                frame.headers.get("transaction"),
                () if record is None else (record,),
                (_destination(frame.headers),),
            )
        elif frame.step in (Command.COMMIT, Command.ABORT):
            name = frame.headers.get("transaction")
            open_ = self._open.get(name or "", OpenTransaction[StompFrame]())
            frame.subject = subject_of(name, open_.records, open_.topics)
        elif frame.asked is not None:
            frame.subject = frame.asked.subject
        else:
            subjects = (each.subject for each in frame.taken_off)
            frame.subject = subject_of_all(frame.headers.get("transaction"), subjects)
        return Insight(frame.subject, error)

    def sending(self, frame: StompFrame) -> None:
        """Remember a frame that will be answered. If there are too many, the oldest is
        forgotten.
        """
        if frame.id is None:
            return
        if frame.way is Direction.REQUEST:
            remember(self._asked, str(frame.id), frame)
        else:
            remember(self._given[_subscription(frame.headers)], str(frame.id), frame)

    def settled(
        self, frame: StompFrame, ledger: Ledger | None, *, reached: bool
    ) -> Iterable[Event]:
        """Return what the frame carried, now that its fate is known."""
        if reached:
            self._passed_on(frame)
        if frame.asked is not None:
            self._asked.pop(str(frame.answers[0]), None)
        return () if ledger is None else tuple(_lines(self._conn, frame, reached=reached))

    def _passed_on(self, frame: StompFrame) -> None:
        for each in frame.taken_off:
            self._given[_subscription(each.headers)].pop(str(each.id), None)
        if frame.step in (
            Command.SUBSCRIBE,
            Command.UNSUBSCRIBE,
        ):  # what a subscription was given ends with it
            over = _subscription(frame.headers)
            self._given.pop(over, None)
            for open_ in self._open.values():
                open_.taken_off = tuple(
                    each for each in open_.taken_off if _subscription(each.headers) != over
                )
        transaction = frame.headers.get("transaction")
        if transaction is None:
            return
        if frame.step in (Command.COMMIT, Command.ABORT):
            ended = self._open.pop(transaction, OpenTransaction[StompFrame]())
            if frame.step == Command.ABORT:
                self._give_back(ended.taken_off)
        else:
            found = self._open.setdefault(transaction, OpenTransaction[StompFrame]())
            found.add(frame.subject, frame.taken_off)

    def _give_back(self, taken_off: Iterable[StompFrame]) -> None:
        """Let deliveries wait for an acknowledgement again, in the order that they came."""
        for each in taken_off:
            subscription = _subscription(each.headers)
            remember(self._given[subscription], str(each.id), each)
            came = sorted(
                self._given[subscription].items(), key=lambda item: -item[1].number
            )  # the broker's count down
            self._given[subscription] = OrderedDict(came)

    # -- what can be done to it --------------------------------------------------------------------

    def refuse(self, frame: StompFrame, data: bytes, error: str) -> bytes:  # noqa: ARG002 - its receipt is enough
        """Return the ERROR that refuses a frame with a receipt header. The broker closes the
        connection after an ERROR.

        Raises:
            UnableError: the frame requests no receipt, or is never refused by this error.
        """
        if (
            error not in STEPS.get((frame.step, Direction.REQUEST), PLAIN).errors
            or frame.id is None
        ):
            raise UnableError(
                f"a {frame.step} that requests {'a' if frame.id else 'no'} receipt cannot be "
                f"refused by {error!r}"
            )
        headers = {"receipt-id": str(frame.id), "message": REFUSED, "content-length": "0"}
        return frames.made("ERROR", headers, escaped=self._version != "1.0")

    def move(self, frame: StompFrame, data: bytes) -> Move | Immovable:
        """Say how a frame can be sent on another connection.

        A frame that is sent outside of a transaction may be sent on any connection of the same
        client.
        """
        if frame.step != Command.SEND or "transaction" in frame.facts:
            return Immovable(self.immovable)
        hello = frames.made("CONNECT", self._connect | {"heart-beat": "0,0"})
        return Move(data, (SendBytes(lambda _: hello), AwaitAnswer("CONNECTED")))

    def silence_s(self, way: Direction) -> float | None:
        """Return the heartbeat time-out on which both sides have agreed."""
        return self._beats.get(way)


def _destination(headers: Mapping[str, str]) -> str | None:
    """Return the one name of a frame's destination.

    >>> _destination({"destination": "/amq/queue/orders"}), _destination({})
    ('/queue/orders', None)
    """
    named = headers.get("destination")
    return named and named.removeprefix(_AMQ)


def _subscription(headers: Mapping[str, str]) -> str:
    """Return what a subscription is known by; of version 1.0 its destination may do."""
    return headers.get("subscription") or headers.get("id") or headers.get("destination", "")


def _milliseconds(beats: str) -> tuple[int, int]:
    gives, _, wants = beats.partition(",")
    return (int(gives), int(wants)) if gives.isdecimal() and wants.isdecimal() else (0, 0)


def _error(frame: StompFrame) -> str | None:
    """Return the error that a frame tells of. An ERROR need not say more than its name."""
    return (frame.headers.get("message") or "ERROR") if frame.step == Command.ERROR else None


def _lines(conn: int, frame: StompFrame, *, reached: bool) -> Iterator[Event]:
    """Yield what a frame, or the answer to one, says of each record."""
    of = frame.asked or frame
    act = _ACTS.get(of.step)
    if act is None:
        return
    headers = of.headers
    error = _error(frame) or 0
    about = About(
        act,
        conn,
        of.number,
        _destination(headers),
        headers.get("transaction"),
        headers.get(ATTEMPT_HEADER),
        headers.get("redelivered") == "true",
        str(of.step).lower(),
    )
    for record in sorted(frame.subject.records):
        yield line(about, record, reached=reached, answered=of is not frame, error=error)


_ACTS: Final[dict[str, Act]] = {
    Command.SEND: Act.SEND,
    Command.MESSAGE: Act.GIVE,
    Command.ACK: Act.ACK,
    Command.NACK: Act.ACK,
    Command.COMMIT: Act.COMMIT,
    Command.ABORT: Act.COMMIT,
}
