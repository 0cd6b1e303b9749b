"""The state of one AMQP connection: its client, its links, unsettled messages, and unacknowledged
deliveries.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from harness.protocols.acts import Act
from harness.protocols.amqp import frames, values
from harness.protocols.amqp.frames import Body
from harness.protocols.amqp.steps import STEPS, Performative
from harness.protocols.amqp.values import Described
from harness.protocols.queues import (
    Ledger,
    OpenTransaction,
    QueueProtocol,
    QueueSession,
    other,
    remember,
    subject_of,
    subject_of_all,
)
from harness.protocols.telling import About, attempt_in, line
from harness.wire.protocol import Frame, Insight, Need, Opaque, UnableError, Unframed
from harness.wire.rules import Direction, Subject

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from harness.model.events import Event
    from harness.wire.protocol import Data, Fed

_SERIALS: Final = 1 << 32
"""The range of delivery numbers, which then start again at 0 (RFC 1982)."""
QUEUE: Final = "queue://"
"""The prefix of a queue's name in addresses of ActiveMQ Classic."""
_REFUSALS: Final = {frames.REJECTED: "rejected", 0x26: "released", 0x27: "modified"}


@dataclass(slots=True, eq=False)
class AmqpFrame(Frame):
    """One frame. ``about``: of a disposition, the deliveries that it is about; of a transfer's
    later frames, the first one.
    """

    way: Direction = Direction.REQUEST
    body: Body = field(default_factory=lambda: Body(Performative.HEADER))
    number: int = 0
    address: str | None = None
    transaction: str | None = None
    about: tuple[AmqpFrame, ...] = ()
    subject: Subject = field(default_factory=Subject)
    attempt: str | None = None
    redelivered: bool = False
    aborted: bool = False
    """Whether a transfer aborts its message: the parts that were sent are discarded."""
    ends: str | None = None
    """The transaction that a discharge ends."""
    error: str | int = 0


@dataclass(slots=True)
class _Session:
    """A session: its links and deliveries, by their numbers in each direction."""

    addresses: dict[tuple[Direction, int], str | None] = field(default_factory=dict)
    coordinators: set[tuple[Direction, int]] = field(default_factory=set)
    deliveries: dict[Direction, OrderedDict[int, AmqpFrame]] = field(
        default_factory=lambda: {way: OrderedDict() for way in Direction}
    )
    """By the direction that the message went."""
    under_way: dict[tuple[Direction, int], AmqpFrame] = field(default_factory=dict)
    """By link: the first frame of a message of which more is to come."""


class Amqp(QueueProtocol):
    """The protocol AMQP 1.0, as the wire reads it."""

    name = "amqp"
    steps = STEPS

    def session(self, conn: int, *, limit: int) -> AmqpSession:
        """Return the state of a new connection."""
        return AmqpSession(conn, limit)


class AmqpSession(QueueSession[AmqpFrame]):
    """The state of one connection."""

    immovable = "belongs to its session, whose numbers settle it"
    unreadable = (frames.NotAFrameError,)

    def __init__(self, conn: int, limit: int) -> None:
        super().__init__(conn, limit)
        self._silences: dict[Direction, float] = {}
        self._sessions: dict[tuple[Direction, int], _Session] = {}
        """By the channel that each side has for it."""
        self._open: dict[str, OpenTransaction[AmqpFrame]] = {}

    # -- frames ------------------------------------------------------------------------------------

    def _next(self, way: Direction, data: Data) -> Fed:
        """Find the next frame."""
        try:
            greets = frames.greeting(data)
            if greets is None or len(data) < frames.HEAD:
                return Need(frames.HEAD)
            size = frames.HEAD if greets else frames.size(data)
            if size == frames.HEAD and not greets:
                return Unframed(size)
            there = memoryview(data)[:size]
            return self._made(
                way, size, Body(Performative.HEADER) if greets else frames.body(there), there
            )
        except values.ShortError as error:
            return Need(min(size, 2 * len(data))) if len(data) < size else Opaque(str(error))

    def _made(self, way: Direction, size: int, body: Body, data: Data) -> AmqpFrame:
        """Raises ShortError where more of it is needed."""
        link = way, body.field(0)
        session = self._sessions.get((way, body.channel))
        asks = (
            body.step is Performative.TRANSFER
            and session is not None
            and link in session.coordinators
        )
        if asks and len(data) < size:
            raise values.ShortError("what is said to the coordinator")
        self._numbers[way] += 1
        number = self._numbers[way] if way is Direction.REQUEST else -self._numbers[way]
        found = AmqpFrame(body.step, size, head=size, way=way, body=body, number=number)
        match body.step:
            case Performative.OPEN:
                self._greeted(way, body)
            case Performative.BEGIN:
                self._begun(way, body)
            case Performative.ATTACH:
                self._attached(found)
            case Performative.TRANSFER:
                self._carries(found)
                if asks:
                    self._coordinates(found, bytes(data[body.end :]))
            case Performative.DISPOSITION:
                self._settles(found)
        if self._owner is None and way is Direction.REQUEST and found.address:
            self._owner = found.address
        answered = (
            found.about[0].number
            if body.step is Performative.DISPOSITION and found.about
            else number
        )
        handle = body.field(0) if body.step is Performative.TRANSFER else None
        told = (("address", found.address), ("transaction", found.transaction), ("handle", handle))
        found.facts = {"version": "1.0", "corr": answered if way is Direction.RESPONSE else number}
        found.facts |= {name: value for name, value in told if value is not None}
        return found

    def _greeted(self, way: Direction, body: Body) -> None:
        if way is Direction.REQUEST and isinstance(body.field(0), str):
            self._owner = body.field(0)
        if (
            isinstance(body.field(4), int) and body.field(4) > 0
        ):  # how long this side waits to hear of the other one
            self._silences[other(way)] = body.field(4) / 1000

    def _begun(self, way: Direction, body: Body) -> None:
        answers = body.field(0)
        known = self._sessions.get((other(way), answers)) if isinstance(answers, int) else None
        self._sessions[way, body.channel] = known or _Session()

    def _attached(self, frame: AmqpFrame) -> None:
        body, session = frame.body, self._session(frame)
        handle, receives = body.field(1), body.field(2) is True
        if session is None or not isinstance(handle, int):
            return
        # of a link the sender's target, and the receiver's source, is the queue: each side names
        # both
        end = body.field(5 if receives is (frame.way is Direction.REQUEST) else 6)
        if isinstance(end, Described):
            if end.what == frames.COORDINATOR:
                session.coordinators.add((frame.way, handle))
            elif isinstance(end.field(0), str):
                frame.address = end.field(0).removeprefix(QUEUE)
        session.addresses[frame.way, handle] = frame.address

    def _carries(self, frame: AmqpFrame) -> None:
        body, session, handle = frame.body, self._session(frame), frame.body.field(0)
        if session is None or not isinstance(handle, int):
            return
        link = frame.way, handle
        frame.address = session.addresses.get(link)
        frame.aborted = body.field(9) is True
        frame.last = frame.aborted or body.field(5) is not True
        first = session.under_way.get(link)
        frame.about = () if first is None else (first,)
        begun = (first or frame).body
        if (
            frame.last
            and not frame.aborted
            and isinstance(begun.field(1), int)
            and begun.field(4) is not True
        ):
            frame.id = _delivery(body.channel, begun.field(1))
        frame.transaction = self._named(body.field(7))

    def _coordinates(self, frame: AmqpFrame, message: bytes) -> None:
        """A transfer to the coordinator asks for a transaction, or ends one."""
        said = frames.message(message).said
        if said is not None and said.what in (frames.DECLARE, frames.DISCHARGE):
            frame.step = (
                Performative.DECLARE if said.what == frames.DECLARE else Performative.DISCHARGE
            )
            if isinstance(said.field(0), bytes):
                frame.transaction = frame.ends = said.field(0).hex()

    def _settles(self, frame: AmqpFrame) -> None:
        """Find the deliveries that a disposition is about: those of the other direction, where its
        receiver speaks.
        """
        body, session = frame.body, self._session(frame)
        first, last = body.field(1), body.field(2)
        if session is None or not isinstance(first, int):
            return
        there = session.deliveries[other(frame.way) if body.field(0) is True else frame.way]
        last = last if isinstance(last, int) else first
        state = _outcome(body.field(4))
        if (
            isinstance(state, Described) and state.what == frames.RECEIVED
        ):  # how far it has come: that settles nothing
            if body.field(3) is True:
                frame.because = (
                    "deliveries are settled by the state received, which says how much has "
                    "arrived but is not an outcome"
                )
            return
        among = (last - first) % _SERIALS  # numbers go round
        frame.about = tuple(
            there[each] for each in there if (each - first) % _SERIALS <= among < _SERIALS // 2
        )
        frame.answers = tuple(each.id for each in frame.about if each.id is not None)
        frame.transaction = self._named(body.field(4))
        if isinstance(state, Described) and state.what not in (frames.ACCEPTED, frames.DECLARED):
            known = _REFUSALS.get(state.what) if isinstance(state.what, int) else None
            frame.error = known or f"{state.what}"
        if frame.about:
            frame.address = frame.about[0].address
            if any(each.step == Performative.DISCHARGE for each in frame.about):
                frame.step = Performative.DISCHARGED

    def _named(self, state: object) -> str | None:
        """Return the transaction that a state is in."""
        if (
            isinstance(state, Described)
            and state.what == frames.TRANSACTIONAL
            and isinstance(state.field(0), bytes)
        ):
            return str(state.field(0).hex())
        return None

    def _session(self, frame: AmqpFrame) -> _Session | None:
        return self._sessions.get((frame.way, frame.body.channel))

    # -- what they are about -----------------------------------------------------------------------

    def read(self, frame: AmqpFrame, data: bytes | None, ledger: Ledger) -> Insight:
        """Say which records a frame carries, settles or commits."""
        if frame.step == Performative.TRANSFER:
            if frame.aborted:
                return Insight()
            if frame.about:
                frame.subject, frame.attempt = frame.about[0].subject, frame.about[0].attempt
                return Insight(frame.subject)
            return self._content(frame, data, ledger)
        if frame.step == Performative.DISCHARGE:
            found = self._open.get(frame.ends or "", OpenTransaction())
            frame.subject = subject_of(frame.transaction, found.records, found.topics)
            return Insight(frame.subject)
        frame.subject = subject_of_all(frame.transaction, (each.subject for each in frame.about))
        return Insight(
            frame.subject, frame.error if frame.about and frame.way is Direction.RESPONSE else None
        )

    def _content(self, frame: AmqpFrame, data: bytes | None, ledger: Ledger) -> Insight:
        if data is None:
            return self.too_large(frame)
        if not frame.last:
            return Insight(because="a message in several frames is not read", voids=True)
        try:
            message = frames.message(data[frame.body.end :])
        except frames.NotAFrameError as error:
            return Insight(because=str(error), voids=True)
        record = ledger.record(message.content, message.properties)
        frame.attempt, frame.redelivered = attempt_in(message.properties), message.deliveries > 0
        frame.subject = subject_of(
            frame.transaction, () if record is None else (record,), (frame.address,)
        )
        return Insight(frame.subject)

    def sending(self, frame: AmqpFrame) -> None:
        """Remember a frame that will be settled. If there are too many, the oldest is forgotten."""
        session = self._session(frame)
        if session is None or frame.body.step is not Performative.TRANSFER:
            return
        link = frame.way, frame.body.field(0)
        first = session.under_way.get(link, frame)
        if not frame.last:
            session.under_way[link] = first
            return
        session.under_way.pop(link, None)
        if frame.id is not None:
            there = session.deliveries[frame.way]
            remember(there, first.body.field(1), frame)

    def settled(self, frame: AmqpFrame, ledger: Ledger | None, *, reached: bool) -> Iterable[Event]:
        """Return what the frame carried, now that its fate is known."""
        if reached:
            self._passed_on(frame)
        return () if ledger is None else tuple(_lines(self._conn, frame, reached=reached))

    def _passed_on(self, frame: AmqpFrame) -> None:
        session = self._session(frame)
        if (
            frame.body.step is Performative.DISPOSITION
            and session is not None
            and frame.body.field(3) is True
        ):
            there = session.deliveries[
                other(frame.way) if frame.body.field(0) is True else frame.way
            ]
            for each in frame.about:
                there.pop((each.about or (each,))[0].body.field(1), None)
        if frame.ends is not None:
            self._open.pop(frame.ends, None)
        elif frame.transaction is not None and frame.way is Direction.REQUEST:
            found = self._open.setdefault(frame.transaction, OpenTransaction())
            found.add(frame.subject)

    # -- what can be done to it --------------------------------------------------------------------

    def refuse(self, frame: AmqpFrame, data: bytes, error: str) -> bytes:  # noqa: ARG002 - whatever it is
        """Raise UnableError: the wire cannot refuse a frame of AMQP.

        Raises:
            UnableError: always.
        """
        raise UnableError(f"a {frame.step} cannot be refused by {error!r}")

    def silence_s(self, way: Direction) -> float | None:
        """Return after how many seconds of silence the receiver of a direction closes the
        connection.
        """
        return self._silences.get(way)


def _outcome(state: object) -> object:
    """Return the outcome within a transaction's state."""
    return (
        state.field(1)
        if isinstance(state, Described) and state.what == frames.TRANSACTIONAL
        else state
    )


def _delivery(channel: int, number: int) -> str:
    return f"{channel}/{number}"


def _lines(conn: int, frame: AmqpFrame, *, reached: bool) -> Iterator[Event]:
    """Yield what a frame says of each record: of a message when its last frame has gone."""
    if frame.body.step is Performative.TRANSFER and frame.last:
        act = (
            Act.COMMIT
            if frame.step == Performative.DISCHARGE
            else Act.SEND
            if frame.way is Direction.REQUEST
            else Act.GIVE
        )
        yield from _each(conn, frame, act, frame.subject.records, reached=reached)
    elif frame.body.step is Performative.DISPOSITION:
        for each in frame.about:
            if each.way is frame.way:
                continue  # the sender settles what its receiver has said
            if frame.way is Direction.REQUEST:
                how = "nack" if frame.error else "ack"
                about = About(Act.ACK, conn, frame.number, each.address, frame.transaction, how=how)
                yield from (
                    line(about, record, reached=reached) for record in sorted(each.subject.records)
                )
            else:
                act = Act.COMMIT if each.step == Performative.DISCHARGE else Act.SEND
                yield from _each(
                    conn,
                    each,
                    act,
                    each.subject.records,
                    reached=reached,
                    answered=True,
                    error=frame.error,
                )


def _each(
    conn: int,
    of: AmqpFrame,
    act: Act,
    records: Iterable[str],
    *,
    reached: bool,
    answered: bool = False,
    error: str | int = 0,
) -> Iterator[Event]:
    about = About(act, conn, of.number, of.address, of.transaction, of.attempt, of.redelivered)
    for record in sorted(records):
        yield line(about, record, reached=reached, answered=answered, error=error)
