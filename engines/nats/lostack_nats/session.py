"""The state of one NATS connection: its client, requests that wait for an answer, and deliveries
that wait for an acknowledgement.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from harness.model import events as kinds
from harness.model.record import ATTEMPT_HEADER
from harness.protocols.acts import Act
from harness.protocols.queues import (
    Ledger,
    QueueProtocol,
    QueueSession,
    remember,
    subject_of,
    subject_of_all,
)
from harness.protocols.telling import About, line
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
from lostack_nats import frames
from lostack_nats.steps import NO_RESPONDERS, STEPS, Op

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from harness.model.events import Event
    from harness.wire.protocol import Data, Fed

SMALL: Final = 4096
"""Up to this size an answer, or an acknowledgement, is read when it is found."""
UNNAMED: Final = "unnamed"
"""The name of a client that gives none: whose cell it is of, its route says."""
_ACKS: Final = {
    b"": Op.ACK,
    b"+ACK": Op.ACK,
    b"-NAK": Op.NAK,
    b"+TERM": Op.TERM,
    b"+WPI": Op.PROGRESS,
    b"+NXT": Op.ACK,
}


@dataclass(slots=True, eq=False)
class NatsFrame(Frame):
    """One line, with its message. ``asked``: of an answer, the request."""

    way: Direction = Direction.REQUEST
    line: frames.Line = field(default_factory=lambda: frames.Line("", (), "", 0))
    number: int = 0
    asked: NatsFrame | None = None
    taken_off: tuple[NatsFrame, ...] = ()
    """Of an acknowledgement, the delivery that it is about."""
    delivery: frames.Delivery | None = None
    subject: Subject = field(default_factory=Subject)
    attempt: str | None = None
    said: Mapping[str, Any] = field(default_factory=dict)
    """Of an answer in JSON, what it says."""
    error: int | str | None = None
    """Of an answer, when it is read: the error that it tells of; 0: it grants."""


class Nats(QueueProtocol):
    """The protocol of NATS, as the wire reads it."""

    name = "nats"
    steps = STEPS

    def session(self, conn: int, *, limit: int) -> NatsSession:
        """Return the state of a new connection."""
        return NatsSession(conn, limit)


class NatsSession(QueueSession[NatsFrame]):
    """The state of one connection."""

    immovable = "its answer goes to a subscription of its connection"
    unreadable = (frames.NotAFrameError,)

    def __init__(self, conn: int, limit: int) -> None:
        super().__init__(conn, limit)
        self._asked: OrderedDict[str, NatsFrame] = OrderedDict()
        self._given: OrderedDict[str, NatsFrame] = OrderedDict()
        self._subscriptions: dict[str, str] = {}

    # -- frames ------------------------------------------------------------------------------------

    def _next(self, way: Direction, data: Data) -> Fed:
        """Find the next line, with its message."""
        found = frames.line_at(data) if len(data) else None
        return Need(len(data) + 1) if found is None else self._found(way, found, data)

    def _found(self, way: Direction, found: frames.Line, data: Data) -> Fed:
        if found.verb in ("PING", "PONG"):
            return Unframed(found.size)
        to_client = found.verb in ("INFO", "MSG", "HMSG", "+OK", "-ERR")
        if to_client is (way is Direction.REQUEST):
            return Opaque(f"a {found.verb} in the wrong direction")
        if len(data) < found.size <= SMALL:
            return Need(found.size)
        content = bytes(data[: found.size]) if found.size <= SMALL else b""
        return self._made(way, found, content)

    def _made(self, way: Direction, found: frames.Line, content: bytes) -> NatsFrame:
        self._numbers[way] += 1
        made = NatsFrame(
            "", found.size, head=found.size, way=way, line=found, number=self._numbers[way]
        )
        if way is Direction.REQUEST:
            self._request(made, content)
        else:
            self._response(made, content)
        number = made.asked.number if made.asked else made.number
        corr = number if made.asked or way is Direction.REQUEST else -number
        made.facts = {"version": "1", "corr": corr, **self._told(made)}
        return made

    def _request(self, made: NatsFrame, content: bytes) -> None:
        verb, subject, reply = made.line.verb, made.line.subject, made.line.reply
        if verb in ("CONNECT", "SUB", "UNSUB"):
            made.step = verb
            if verb == "CONNECT":
                self._owner = str(_json(made.line.text.encode()).get("name") or UNNAMED)
        elif subject.startswith(frames.ACK_SUBJECT):
            body = content[slice(*made.line.body)].split(b" ", 1)[0]
            made.step = _ACKS.get(body, Op.PROGRESS)
            made.delivery = frames.delivery_of(subject)
            taken = self._given.get(subject)
            if taken is not None:
                made.taken_off, made.answers = (taken,), (subject,)
            made.id = reply
        elif subject.startswith(frames.NEXT_SUBJECT):
            made.step = Op.PULL
        elif subject.startswith(frames.API_SUBJECT):
            made.step, made.id = Op.API, reply
        elif subject.startswith(frames.INBOX):
            made.step = Op.RESPOND
        else:
            made.step, made.id = Op.PUBLISH, reply
            if self._owner in (None, UNNAMED):
                self._owner = subject

    def _response(self, made: NatsFrame, content: bytes) -> None:
        verb, subject, reply = made.line.verb, made.line.subject, made.line.reply
        if verb in ("INFO", "+OK", "-ERR"):
            made.step = verb
            return
        made.asked = self._asked.get(subject)
        if made.asked is not None:
            answered = {Op.PUBLISH: Op.PUBACK, Op.API: Op.ANSWER}
            made.step = answered.get(Op(made.asked.step), Op.ACKED)
            made.answers = (subject,)
            if content:
                made.said = _json(content[slice(*made.line.body)])
        elif reply is not None and (delivery := frames.delivery_of(reply)) is not None:
            made.step, made.delivery, made.id = Op.DELIVERY, delivery, reply
        elif content[slice(*made.line.headers)].startswith(frames.STATUS_LINE):
            status = content[slice(*made.line.headers)].split(b"\r\n", 1)[0]
            made.step = Op.STATUS if status.rstrip() != frames.STATUS_LINE.rstrip() else Op.MESSAGE
        else:
            made.step = Op.MESSAGE

    def _told(self, made: NatsFrame) -> dict[str, object]:
        found: dict[str, object] = {}
        if made.delivery is not None:
            found["sequence"] = made.delivery.sequence
        if made.step == Op.DELIVERY and made.delivery is not None:
            found["times"] = made.delivery.times
        if made.step == Op.ERR:
            found["message"] = made.line.text
        if made.step == Op.PUBACK:
            found |= {each: made.said[each] for each in ("seq", "duplicate") if each in made.said}
        return found

    # -- what they are about -----------------------------------------------------------------------

    def read(self, frame: NatsFrame, data: bytes | None, ledger: Ledger) -> Insight:
        """Say which record a frame carries or acknowledges."""
        if frame.step in (Op.PUBLISH, Op.DELIVERY, Op.MESSAGE):
            if data is None:
                return self.too_large(frame)
            headers = frames.headers_in(data[slice(*frame.line.headers)])
            frame.attempt = headers.get(ATTEMPT_HEADER)
            record = ledger.record(data[slice(*frame.line.body)], headers)
            topic = frame.delivery.stream if frame.delivery else frame.line.subject
            frame.subject = subject_of(None, () if record is None else (record,), (topic,))
        elif frame.asked is not None:
            frame.subject = frame.asked.subject
        elif frame.taken_off:
            frame.subject = subject_of_all(None, (each.subject for each in frame.taken_off))
        frame.error = _error(frame, data)
        return Insight(frame.subject, frame.error)

    def sending(self, frame: NatsFrame) -> None:
        """Remember what will be answered, or acknowledged."""
        if frame.line.verb == "SUB":
            self._subscriptions[frame.line.words[-1]] = frame.line.words[0]
        if frame.id is not None:
            where = self._asked if frame.way is Direction.REQUEST else self._given
            remember(where, str(frame.id), frame)

    def settled(self, frame: NatsFrame, ledger: Ledger | None, *, reached: bool) -> Iterable[Event]:
        """Return what the frame carried, now that its fate is known."""
        if reached and frame.step in (Op.ACK, Op.NAK, Op.TERM):
            for each in frame.taken_off:
                self._given.pop(str(each.id), None)
        if frame.asked is not None:
            self._asked.pop(str(frame.asked.id), None)
        return () if ledger is None else tuple(_lines(self._conn, frame, reached=reached))

    # -- what can be done to it --------------------------------------------------------------------

    def refuse(self, frame: NatsFrame, data: bytes, error: str) -> bytes:  # noqa: ARG002 - its subject is enough
        """Return the message that nobody listens to the subject.

        Raises:
            UnableError: nobody is asked, or this is no refusal of it.
        """
        legal = STEPS.get((frame.step, Direction.REQUEST), PLAIN).errors
        sid = next(
            (sid for sid, subject in self._subscriptions.items() if _fits(frame.id, subject)), None
        )
        if error not in legal or frame.id is None or sid is None:
            raise UnableError(f"a {frame.step} that asks for no answer cannot be refused")
        return f"HMSG {frame.id} {sid} 16 16\r\nNATS/1.0 503\r\n\r\n\r\n".encode()


def _fits(subject: object, pattern: str) -> bool:
    parts, wanted = str(subject).split("."), pattern.split(".")
    if wanted[-1] == ">":
        parts, wanted = parts[: len(wanted) - 1], wanted[:-1]
    return len(parts) == len(wanted) and all(
        each in ("*", part) for part, each in zip(parts, wanted, strict=True)
    )


def _json(text: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _error(frame: NatsFrame, data: bytes | None) -> int | str | None:
    """Return the error that an answer tells of; 0: it grants; ``None``: it is no answer."""
    if frame.step == Op.ERR:
        return frame.line.text
    if frame.asked is None:
        return None
    headers = (data or b"")[slice(*frame.line.headers)]
    if headers.startswith(frames.NOBODY):
        return NO_RESPONDERS
    error = frame.said.get("error")
    return str(error.get("description", "refused")) if isinstance(error, dict) else 0


_MEANT: Final = {
    Op.PUBLISH: Act.SEND,
    Op.DELIVERY: Act.GIVE,
    Op.ACK: Act.ACK,
    Op.NAK: Act.ACK,
    Op.TERM: Act.ACK,
}


def _lines(conn: int, frame: NatsFrame, *, reached: bool) -> Iterator[Event]:
    """Yield what a frame, or the answer to one, says of each record."""
    of = frame.asked or frame
    act = _MEANT.get(Op(of.step))
    if act is None:
        return
    delivery, error = of.delivery, frame.error
    topic = delivery.stream if delivery else of.line.subject
    redelivered = delivery is not None and delivery.times > 1
    about = About(act, conn, of.number, topic, None, of.attempt, redelivered, of.step.lower())
    for record in sorted(frame.subject.records):
        told = line(about, record, reached=reached, answered=of is not frame, error=error or 0)
        if isinstance(told, kinds.ProduceAnswer) and not error and "seq" in frame.said:
            again = bool(frame.said.get("duplicate"))
            place = None if again else f"{frame.said.get('stream')}:{frame.said['seq']}"
            told = structs.replace(told, place=place)
        yield told
