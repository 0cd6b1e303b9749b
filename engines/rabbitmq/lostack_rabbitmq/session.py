"""The state of one AMQP 0-9-1 connection: its channels, publishes that wait for their confirm, and
unacknowledged deliveries.

A message is several frames, of one step. The last one is the one that rules select, and that is
answered: until it has come, the broker has no message.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from harness.protocols.acts import Act
from harness.protocols.queues import (
    Ledger,
    QueueProtocol,
    QueueSession,
    remember,
    subject_of,
    subject_of_all,
)
from harness.protocols.telling import About, attempt_in, line
from harness.wire.protocol import Frame, Insight, Need, UnableError, Unframed
from harness.wire.rules import Direction, Subject
from lostack_rabbitmq import frames
from lostack_rabbitmq.steps import CONTENT, GIVES, METHODS, STEPS, Op

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from harness.model.events import Event
    from harness.wire.protocol import Data, Fed
    from lostack_rabbitmq.frames import Method

MISSED: Final = 2
"""After how many intervals of heart-beats without a byte a side hangs up."""
MULTIPLE, MANDATORY, NO_ACK, GET_NO_ACK, REDELIVERED = 1, 1, 2, 1, 1
"""Bits of methods' arguments."""
_SETTLES: Final = frozenset({Op.ACK, Op.NACK, Op.REJECT})
_TOLD: Final = ("exchange", "key", "queue", "tag", "code", "message")
"""Arguments that a frame's line in the history has, where it has them."""


@dataclass(slots=True, eq=False)
class AmqpFrame(Frame):
    """One frame. ``about``: the publishes, or deliveries, that it confirms, returns or
    settles.
    """

    way: Direction = Direction.REQUEST
    channel: int = 0
    number: int = 0
    said: dict[str, Any] = field(default_factory=dict)
    about: tuple[AmqpFrame, ...] = ()
    address: str | None = None
    message: _Message | None = None
    subject: Subject = field(default_factory=Subject)
    attempt: str | None = None
    error: str = ""
    """Of a publish, why its message was returned; of a confirm, why it is none."""
    confirmed: bool = True
    """Of a publish, whether its channel confirms: else its return is its only answer."""


@dataclass(slots=True)
class _Message:
    """A message of which more frames may come. ``left``: of its body; null: that is not known
    yet. ``read``: false, where it is too large.
    """

    op: Op
    said: dict[str, Any]
    left: int | None = None
    properties: bytes = b""
    body: bytearray = field(default_factory=bytearray)
    read: bool = True

    @property
    def sum(self) -> int:
        """A checksum of the body."""
        return zlib.crc32(self.body)


@dataclass(slots=True)
class _Channel:
    """A channel of a connection."""

    confirms: bool = False
    published: int = 0
    asked: OrderedDict[int, AmqpFrame] = field(default_factory=OrderedDict)
    """By number: publishes that wait for their confirm, or may be returned."""
    given: OrderedDict[int, AmqpFrame] = field(default_factory=OrderedDict)
    """By delivery tag: what waits to be acknowledged."""
    consumers: dict[str, tuple[str, bool]] = field(default_factory=dict)
    """By consumer tag: its queue, and whether it acknowledges."""
    asks: tuple[str, bool] = ("", True)
    """The same of the last ``basic.consume`` or ``basic.get``, which come one at a time."""
    declared: str = ""
    """The queue that was declared last, which an empty name means."""
    under_way: dict[Direction, _Message] = field(default_factory=dict)


class Amqp091(QueueProtocol):
    """The protocol AMQP 0-9-1, as the wire reads it."""

    name = "amqp-0-9-1"
    steps = STEPS

    def session(self, conn: int, *, limit: int) -> AmqpSession:
        """Return the state of a new connection."""
        return AmqpSession(conn, limit)


class AmqpSession(QueueSession[AmqpFrame]):
    """The state of one connection."""

    immovable = "belongs to its channel, whose numbers confirm or acknowledge it"
    unreadable = (frames.NotAFrameError,)

    def __init__(self, conn: int, limit: int) -> None:
        super().__init__(conn, limit)
        self._channels: dict[int, _Channel] = {}
        self._beats: float | None = None

    # -- frames ------------------------------------------------------------------------------------

    def _next(self, way: Direction, data: Data) -> Fed:  # noqa: PLR0911 - one for each kind
        if bytes(data[:1]) == frames.GREETING[:1]:
            return self._greeting(way, bytes(data[: len(frames.GREETING)]))
        head = frames.head_at(data)
        if head is None:
            return Need(frames.HEAD)
        large = head.size > self._limit
        channel = self._channels.get(head.channel)
        if large and not (head.kind == frames.BODY and channel and way in channel.under_way):
            because = f"{head.size} bytes that are no part of a message"
            return self._made(way, Op.OTHER, head.channel, head.size, because=because)
        if len(data) < head.size and not large:
            return Need(head.size)
        content = b"" if large else frames.payload(data[: head.size])
        if head.kind == frames.HEARTBEAT:
            return Unframed(head.size)
        if head.kind == frames.METHOD:
            return self._method(way, head, frames.method(content))
        return self._content(way, head, content)

    def _greeting(self, way: Direction, data: bytes) -> Fed:
        if len(data) < len(frames.GREETING):
            return Need(len(frames.GREETING))
        if way is Direction.RESPONSE or data != frames.GREETING:
            raise frames.NotAFrameError(f"a greeting {data!r}, which is not AMQP 0-9-1's")
        return self._made(way, Op.HEADER, 0, len(data))

    def _made(self, way: Direction, op: Op, channel: int, size: int, **more: Any) -> AmqpFrame:
        self._numbers[way] += 1
        number = self._numbers[way] if way is Direction.REQUEST else -self._numbers[way]
        return AmqpFrame(
            op,
            size,
            head=size,
            way=way,
            channel=channel,
            number=number,
            facts={"version": "0-9-1", "corr": number, "channel": channel},
            **more,
        )

    def _method(self, way: Direction, head: frames.Head, method: Method) -> AmqpFrame:
        op, said = METHODS.get(method.number, Op.OTHER), dict(method.said)
        if (str(op), way) not in STEPS:
            raise frames.NotAFrameError(f"a {op} in the wrong direction")
        channel = self._channels.setdefault(head.channel, _Channel())
        if way in channel.under_way:
            raise frames.NotAFrameError(f"a {op} inside of a message")
        made = self._made(way, op, head.channel, head.size, said=said)
        if op is Op.OTHER:
            made.facts["method"] = ".".join(map(str, method.number))
        made.facts |= {name: said[name] for name in _TOLD if name in said}
        if op in CONTENT:
            channel.under_way[way] = _Message(op, said)
            made.last = False
        elif op in _SETTLES:
            self._settles(made, channel)
        elif way is Direction.REQUEST:
            self._asks(made, channel)
        else:
            self._answers(made, channel)
        return made

    def _asks(self, made: AmqpFrame, channel: _Channel) -> None:
        """Take note of what a client's method changes."""
        said = made.said
        match made.step:
            case Op.START_OK:
                named = said["client-properties"].get("connection_name")
                self._owner = str(named) if named else self._owner
            case Op.TUNE_OK:
                self._beats = MISSED * said["heartbeat"] or None
            case Op.CHANNEL_OPEN:
                self._channels[made.channel] = _Channel()
            case Op.CONFIRM_SELECT:
                channel.confirms = True
            case Op.DECLARE:
                channel.declared = said["queue"] or channel.declared
            case Op.CONSUME:
                queue = said["queue"] or channel.declared
                channel.asks = queue, not said["bits"] & NO_ACK
                if said["consumer"]:
                    channel.consumers[said["consumer"]] = channel.asks
                made.address = queue
                self._owner = self._owner or queue
            case Op.GET:
                queue = said["queue"] or channel.declared
                channel.asks = queue, not said["bits"] & GET_NO_ACK

    def _answers(self, made: AmqpFrame, channel: _Channel) -> None:
        """Take note of what a server's method answers."""
        match made.step:
            case Op.DECLARE_OK:
                channel.declared = made.said["queue"]
            case Op.CONSUME_OK:
                channel.consumers.setdefault(made.said["consumer"], channel.asks)
            case Op.CHANNEL_CLOSE | Op.CONNECTION_CLOSE:
                made.error = made.said["message"]

    def _settles(self, made: AmqpFrame, channel: _Channel) -> None:
        """Find the deliveries that a client is done with, or the publishes that a server
        confirms.
        """
        asks = made.way is Direction.REQUEST
        there = channel.given if asks else channel.asked
        tag, upto = made.said["tag"], made.said["bits"] & MULTIPLE and made.step != Op.REJECT
        found = [each for number, each in there.items() if number == tag]
        if upto:
            found = [each for number, each in there.items() if number <= tag or not tag]
        made.about = tuple(found)
        made.answers = tuple(each.id for each in found if each.id is not None)
        if not asks:
            made.error = str(Op.NACK) if made.step == Op.NACK else ""
            if found:
                made.facts["corr"] = found[0].number
        made.address = found[0].address if found else None

    def _content(self, way: Direction, head: frames.Head, content: bytes) -> AmqpFrame:
        channel = self._channels.get(head.channel)
        message = channel.under_way.get(way) if channel else None
        if channel is None or message is None:
            raise frames.NotAFrameError("a message's frame without its method")
        made = self._made(way, message.op, head.channel, head.size, said=message.said)
        if head.kind == frames.HEADER:
            message.left, message.properties = frames.content(content)
            message.read = message.left <= self._limit
        elif message.left is None:
            raise frames.NotAFrameError("a body before its header")
        else:
            message.left -= head.size - frames.HEAD - 1
            message.read = message.read and head.size <= self._limit
            if message.read:
                message.body += content
        made.last = message.left <= 0
        if made.last:
            channel.under_way.pop(way)
            made.message = message
            self._whole(made, channel)
        return made

    def _whole(self, made: AmqpFrame, channel: _Channel) -> None:
        """Take note that a message is complete."""
        said = made.said
        if made.step == Op.PUBLISH:
            made.address = said["key"] or said["exchange"]
            self._owner = self._owner or made.address
            made.confirmed = channel.confirms
            channel.published += 1
            if channel.confirms or said["bits"] & MANDATORY:
                made.id = _name(made.channel, channel.published)
                remember(channel.asked, channel.published, made)
            return
        if made.step == Op.RETURN:
            self._returned(made, channel)
            return
        queue, acknowledges = (
            channel.consumers.get(said["consumer"], ("", True))
            if made.step == Op.DELIVER
            else channel.asks
        )
        made.address = queue or said["key"]
        if acknowledges:
            made.id = _name(made.channel, said["tag"])
            remember(channel.given, said["tag"], made)

    def _returned(self, made: AmqpFrame, channel: _Channel) -> None:
        """Find the publish of a message that comes back: the first one that is the same."""
        for each in channel.asked.values():
            same = all(each.said[name] == made.said[name] for name in ("exchange", "key"))
            mine, theirs = each.message, made.message
            if same and not each.error and mine and theirs and mine.sum == theirs.sum:
                each.error = made.error = made.said["message"]
                made.about, made.address = (each,), each.address
                if not each.confirmed and each.id is not None:
                    made.answers = (each.id,)
                return

    # -- what they are about -----------------------------------------------------------------------

    def read(self, frame: AmqpFrame, data: bytes | None, ledger: Ledger) -> Insight:  # noqa: ARG002 - a message's frames were kept
        """Say which record a frame carries, confirms or acknowledges."""
        if frame.message is not None and frame.step != Op.RETURN:
            if not frame.message.read:
                return self.too_large(frame)
            try:
                said = frames.properties(frame.message.properties)
            except frames.NotAFrameError as bad:
                return Insight(because=f"a message's properties: {bad}", voids=True)
            record = ledger.record(bytes(frame.message.body), said)
            frame.attempt = attempt_in(said)
            frame.subject = subject_of(None, () if record is None else (record,), (frame.address,))
            return Insight(frame.subject)
        frame.subject = subject_of_all(None, (each.subject for each in frame.about))
        if frame.way is Direction.REQUEST:
            return Insight(frame.subject)
        error = frame.error or next((each.error for each in frame.about if each.error), "")
        return Insight(frame.subject, error or (0 if frame.about else None))

    def sending(self, frame: AmqpFrame) -> None:
        """Do nothing: what waits for an answer was noted when it was found."""

    def settled(self, frame: AmqpFrame, ledger: Ledger | None, *, reached: bool) -> Iterable[Event]:
        """Return what the frame carried, now that its fate is known."""
        told = () if ledger is None else tuple(_lines(self._conn, frame, reached=reached))
        channel = self._channels.get(frame.channel)
        if reached and channel is not None:
            if frame.step in _SETTLES:
                there = channel.given if frame.way is Direction.REQUEST else channel.asked
                for number in [number for number, each in there.items() if each in frame.about]:
                    del there[number]
            elif frame.step == Op.RECOVER and frame.way is Direction.REQUEST:
                channel.given.clear()  # all of it comes again, by other numbers
        return told

    # -- what can be done to it --------------------------------------------------------------------

    def refuse(self, frame: AmqpFrame, data: bytes, error: str) -> bytes:  # noqa: ARG002 - whatever it is
        """Raise UnableError: a server that has not seen a publish numbers the next ones otherwise.

        Raises:
            UnableError: always.
        """
        raise UnableError(f"a {frame.step} cannot be refused by {error!r}: confirms are numbered")

    def silence_s(self, way: Direction) -> float | None:  # noqa: ARG002 - the same for both
        """Return the time-out of the heart-beats on which both sides have agreed."""
        return self._beats


def _name(channel: int, number: int) -> str:
    return f"{channel}/{number}"


def _lines(conn: int, frame: AmqpFrame, *, reached: bool) -> Iterator[Event]:
    """Yield what a frame says of each record: of a message when its last frame has gone."""
    if frame.message is not None and frame.step != Op.RETURN:
        act = Act.GIVE if frame.step in GIVES else Act.SEND
        again = bool(frame.step in GIVES and frame.said["bits"] & REDELIVERED)
        yield from _each(conn, frame, act, reached=reached, redelivered=again)
    elif frame.way is Direction.RESPONSE:
        for each in frame.about:
            if frame.step != Op.RETURN or not each.confirmed:
                error = frame.error or each.error or 0
                yield from _each(conn, each, Act.SEND, reached=reached, answered=True, error=error)
    else:
        how = "ack" if frame.step == Op.ACK else "nack"
        for each in frame.about:
            about = About(Act.ACK, conn, frame.number, each.address, how=how)
            yield from (
                line(about, record, reached=reached) for record in sorted(each.subject.records)
            )


def _each(
    conn: int,
    of: AmqpFrame,
    act: Act,
    *,
    reached: bool,
    redelivered: bool = False,
    answered: bool = False,
    error: str | int = 0,
) -> Iterator[Event]:
    about = About(act, conn, of.number, of.address, None, of.attempt, redelivered)
    for record in sorted(of.subject.records):
        yield line(about, record, reached=reached, answered=answered, error=error)
