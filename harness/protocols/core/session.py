"""The state of one Core connection: its sessions (each on a channel), their requests, and
unacknowledged deliveries.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.protocols.acts import Act
from harness.protocols.core import reading
from harness.protocols.core.frame import UNNUMBERED, CoreFrame, consumer_of, lines_of, refusal_of
from harness.protocols.core.steps import (
    ANSWERED,
    ANSWERS,
    BLOCKING,
    BRANCHES,
    SAME,
    STEPS,
    Kind,
    Packet,
)
from harness.protocols.queues import (
    Ledger,
    OpenTransaction,
    QueueProtocol,
    QueueSession,
    remember,
    subject_of,
    subject_of_all,
)
from harness.protocols.telling import attempt_in
from harness.wire.protocol import (
    Insight,
    Need,
    Opaque,
    Unframed,
)
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.model.events import Event
    from harness.wire.protocol import Data, Fed

GREETING: Final = b"ARTEMIS"
"""The bytes that a client sends before its first packet; old clients do not send them."""

LENGTH: Final = 4
MOST_BYTES: Final = 1 << 30
CORRELATED, BY_SENDER = 130, 134
"""From these versions on a SESS_SEND ends in a number by which it is answered, and in that of its
sender.
"""
COMMITS_CORRELATED: Final = 132
NAMES: Final = "jms-client-id"
"""By what a session of an older client is told how the client is called."""
ENDS: Final = frozenset({Packet.COMMIT, Packet.ROLLBACK, Packet.XA_COMMIT, Packet.XA_ROLLBACK})
"""Packets that end a transaction."""
_OF_SESSIONS: Final = ENDS | {Packet.SEND, Packet.RECEIVE, Packet.ACKNOWLEDGE, Packet.XA_PREPARE}
"""Packets whose meaning depends on the parameters with which their session was made."""
_OVER: Final = frozenset(
    {Kind.SESS_CONSUMER_CLOSE, Kind.DISCONNECT_CONSUMER, Kind.SESS_CREATECONSUMER}
)
"""Behind these a consumer of this number has nothing that it was given before."""


@dataclass(slots=True)
class _Channel:
    """A session: its parameters, how many of its own transactions have ended, and its distributed
    transaction.
    """

    asked: reading.Session
    ends: int = 0
    branch: str | None = None

    def transaction(self, number: int) -> str | None:
        """Return the name of the transaction to which a packet belongs now; ``None`` if it belongs
        to none.
        """
        if self.branch is not None:
            return self.branch
        return (
            f"{number}.{self.ends}"
            if self.asked.sends_bound or self.asked.acknowledges_bound
            else None
        )

    @property
    def acknowledges_by_commit(self) -> bool:
        """Whether its commit is nothing but that of acknowledgements."""
        return self.asked.acknowledges_bound and not self.asked.sends_bound


class Core(QueueProtocol):
    """The protocol Artemis Core, as the wire reads it."""

    name = "core"
    steps = STEPS

    def session(self, conn: int, *, limit: int) -> CoreSession:
        """Return the state of a new connection."""
        return CoreSession(conn, limit)


class CoreSession(QueueSession[CoreFrame]):
    """The state of one connection."""

    immovable = "belongs to its session, which was made on its connection"
    unreadable = (reading.NotAPacketError,)

    def __init__(self, conn: int, limit: int) -> None:
        super().__init__(conn, limit)
        self._greeted = False
        self._channels: dict[int, _Channel] = {}
        self._ttl_s: float | None = None
        self._asked: OrderedDict[str, CoreFrame] = OrderedDict()
        self._given: defaultdict[str, OrderedDict[int, CoreFrame]] = defaultdict(OrderedDict)
        """By channel and consumer: what was given and waits to be acknowledged, in order."""
        self._returned: defaultdict[str, OrderedDict[int, CoreFrame]] = defaultdict(OrderedDict)
        """Likewise what a rollback has put back into its queue. Its acknowledgement is about that
        message alone.
        """
        self._bound: defaultdict[str, OpenTransaction[CoreFrame]] = defaultdict(OpenTransaction)
        """By the names of transactions, of sessions' own and distributed ones."""

    # -- frames ------------------------------------------------------------------------------------

    def _next(self, way: Direction, data: Data) -> Fed:
        """Find the next packet. It must be complete, because the number of its answer is at its
        end.
        """
        if len(data) < len(GREETING):
            return Need(len(GREETING))
        first = way is Direction.REQUEST and not self._greeted
        if first and (begins := _beginning(data)) is not None:
            return begins
        if len(data) < reading.HEAD:
            return Need(reading.HEAD)
        return self._packet(way, data)

    def _packet(self, way: Direction, data: Data) -> Fed:
        size = int.from_bytes(data[:LENGTH]) + LENGTH
        kind = int.from_bytes(data[LENGTH : LENGTH + 1], signed=True)
        if not reading.HEAD <= size <= MOST_BYTES:
            raise reading.NotAPacketError(f"a packet of {size} bytes")
        if size > self._limit:
            if kind not in set(Kind):
                raise reading.NotAPacketError(f"{size} bytes of type {kind}")
            return CoreFrame(
                _step(kind), size, facts={"version": "?", "corr": 0}, way=way, kind=kind, head=size
            )
        if len(data) < size:
            return Need(size)
        whole = bytes(data[:size])
        if kind == Kind.PING:
            self._ttl_s = (
                reading.Reader(whole, reading.HEAD).one(">q") / 1000
                if way is Direction.REQUEST
                else self._ttl_s
            )
            return Unframed(size)
        return self._made(way, kind, whole)

    def taken(self, way: Direction, size: int) -> None:
        """Take note that bytes have left the buffer: the next packet may be looked for."""
        super().taken(way, size)
        self._greeted = self._greeted or way is Direction.REQUEST

    def _made(self, way: Direction, kind: int, whole: bytes) -> CoreFrame:
        channel = reading.Reader(whole, LENGTH + 1).one(">q")
        self._numbers[way] += 1
        frame = CoreFrame(
            _step(kind), len(whole), way=way, kind=kind, channel=channel, number=self._numbers[way]
        )
        if (frame.step, way) not in STEPS and any(
            (frame.step, each) in STEPS for each in Direction
        ):
            raise reading.NotAPacketError(f"{frame.step} as a {way}")
        open_ = self._channels.get(channel)
        if open_ is None and frame.step in _OF_SESSIONS:
            frame.because = (
                f"{frame.step} in a session that was made on another connection, which the wire "
                "did not read"
            )
        if way is Direction.REQUEST:
            sends = kind == Kind.SESS_SEND and open_ is not None and not open_.asked.sends_bound
            frame.transaction = open_.transaction(channel) if open_ and not sends else None
            if kind in BRANCHES:
                frame.transaction = reading.branch(whole)
            frame.act = _act(frame.step, open_)
            self._asks(frame, whole, open_)
        elif kind in ANSWERS:
            correlation = (
                reading.Reader(whole, len(whole) - 8).one(">q")
                if _is_numbered(kind, len(whole), whole)
                else UNNUMBERED
            )
            name = _name(channel, correlation)
            frame.asked, frame.answers = self._asked.get(name), (name,)
            frame.number = frame.asked.number if frame.asked else -frame.number
            frame.error = _error(kind, whole)
            if frame.asked:
                frame.step = str(ANSWERED.get((kind, frame.asked.step), frame.step))
        else:
            frame.number, frame.act = -frame.number, _act(frame.step, open_)
            if kind == Kind.SESS_RECEIVE_MSG:
                self._receives(frame, whole, open_)
            elif kind == Kind.DISCONNECT_CONSUMER:
                frame.consumer = reading.Reader(whole, reading.HEAD).one(">q")
        told = {
            "version": str(open_.asked.version) if open_ else "?",
            "corr": frame.number,
            "channel": channel,
        }
        about = {
            "destination": frame.topic,
            "transaction": frame.transaction,
            "consumer": frame.consumer,
            "message": frame.message,
        }
        frame.facts = told | {name: value for name, value in about.items() if value is not None}
        frame.head = len(whole) if frame.step in (Packet.SEND, Packet.RECEIVE) else reading.HEAD
        return frame

    def _asks(self, frame: CoreFrame, whole: bytes, open_: _Channel | None) -> None:
        """Read what a client asks for, and whether it wants an answer."""
        kind, size = frame.kind, len(whole)
        asks, correlation = kind in BLOCKING, UNNUMBERED
        if kind in (Kind.CREATESESSION, Kind.CREATESESSION_V2):
            found = reading.session(whole, names_client=kind == Kind.CREATESESSION_V2)
            self._channels[found.channel] = _Channel(found)
            self._owner = found.client or self._owner
        elif frame.step == Kind.SESS_ADD_METADATA.name:
            reader = reading.Reader(whole, reading.HEAD)
            name, value = reader.text(), reader.text()
            self._owner = value if name == NAMES else self._owner
        elif kind == Kind.SESS_SEND:
            version = open_.asked.version if open_ else 0
            tail = (8 if version >= CORRELATED else 0) + (4 if version >= BY_SENDER else 0)
            reader = reading.Reader(whole, max(reading.HEAD, size - tail - 1))
            asks = reader.one(">?")
            correlation = reader.one(">q") if tail else UNNUMBERED
            frame.topic = reading.message(whole).address
        elif kind in (Kind.SESS_ACKNOWLEDGE, Kind.SESS_INDIVIDUAL_ACKNOWLEDGE):
            reader = reading.Reader(whole, reading.HEAD)
            frame.consumer, frame.message, asks = (
                reader.one(">q"),
                reader.one(">q"),
                reader.one(">?"),
            )
            frame.taken_off = self._about(frame)
            frame.answers = tuple(str(each.id) for each in frame.taken_off)
        elif (
            kind == Kind.SESS_COMMIT
            and open_
            and open_.asked.version >= COMMITS_CORRELATED
            and size > reading.HEAD
        ):
            correlation = reading.Reader(whole, reading.HEAD).one(">q")
        elif kind == Kind.SESS_CREATECONSUMER:
            reader = reading.Reader(whole, reading.HEAD)
            frame.consumer, frame.topic = reader.one(">q"), reader.simple()
            asks = True
        elif kind == Kind.SESS_CONSUMER_CLOSE:
            frame.consumer = reading.Reader(whole, reading.HEAD).one(">q")
        if self._owner is None and frame.topic is not None:
            self._owner = frame.topic
        frame.id = _name(frame.channel, correlation) if asks else None

    def _receives(self, frame: CoreFrame, whole: bytes, open_: _Channel | None) -> None:
        reader = reading.Reader(whole, max(reading.HEAD, len(whole) - 12))
        frame.consumer, deliveries = reader.one(">q"), reader.one(">i")
        found = reading.message(whole)
        frame.message, frame.topic, frame.redelivered = found.number, found.address, deliveries > 1
        if open_ is None or not open_.asked.acknowledged_before:
            frame.id = f"{consumer_of(frame)}/{found.number}"

    def _about(self, frame: CoreFrame) -> tuple[CoreFrame, ...]:
        """Return the deliveries that an acknowledgement is about: one, or all up to it."""
        given = self._given.get(consumer_of(frame))
        if given is None or frame.message is None or frame.message not in given:
            returned = self._returned[consumer_of(frame)].get(frame.message or 0)
            return () if returned is None else (returned,)
        if frame.kind == Kind.SESS_INDIVIDUAL_ACKNOWLEDGE:
            return (given[frame.message],)
        upto = list(given)
        return tuple(given[each] for each in upto[: upto.index(frame.message) + 1])

    # -- what they are about -----------------------------------------------------------------------

    def read(self, frame: CoreFrame, data: bytes | None, ledger: Ledger) -> Insight:
        """Say which records a packet carries, acknowledges or commits."""
        if frame.step in (Packet.SEND, Packet.RECEIVE):
            if data is None:
                return self.too_large(frame)
            found = reading.message(data)
            record = ledger.record(found.body, found.properties)
            frame.attempt = attempt_in(found.properties)
            frame.subject = subject_of(
                frame.transaction, () if record is None else (record,), (frame.topic,)
            )
        elif frame.kind in (Kind.SESS_SEND_LARGE, Kind.SESS_RECEIVE_LARGE_MSG):
            return Insight(because="a message in several packets is not read", voids=True)
        elif frame.asked is not None:
            frame.subject = frame.asked.subject
            return Insight(frame.subject, frame.error or 0)
        elif frame.step in ENDS or frame.step == Packet.XA_PREPARE:
            bound = self._bound.get(frame.transaction or "", OpenTransaction[CoreFrame]())
            frame.subject = subject_of(frame.transaction, bound.records, bound.topics)
        else:
            subjects = (each.subject for each in frame.taken_off)
            frame.subject = subject_of_all(frame.transaction, subjects)
        return Insight(frame.subject)

    def sending(self, frame: CoreFrame) -> None:
        """Remember a frame that will be answered; of too many, forget the oldest."""
        if frame.id is None:
            return
        if frame.way is Direction.REQUEST:
            remember(self._asked, str(frame.id), frame)
        elif frame.message is not None:
            remember(self._given[consumer_of(frame)], frame.message, frame)
            self._returned[consumer_of(frame)].pop(frame.message, None)

    def settled(self, frame: CoreFrame, ledger: Ledger | None, *, reached: bool) -> Iterable[Event]:
        """Return what the packet carried, now that its fate is known."""
        if reached and frame.way is Direction.REQUEST:
            self._passed_on(frame)
        if frame.kind in _OVER and (
            reached or frame.way is Direction.RESPONSE
        ):  # closed by the broker, whether or not the client has got the answer
            self._given.pop(consumer_of(frame), None)
            self._returned.pop(consumer_of(frame), None)
        if frame.asked is not None:
            self._asked.pop(str(frame.answers[0]), None)
        return () if ledger is None else tuple(lines_of(self._conn, frame, reached=reached))

    def _passed_on(self, frame: CoreFrame) -> None:
        for each in frame.taken_off:
            self._given[consumer_of(each)].pop(each.message or 0, None)
            self._returned[consumer_of(each)].pop(each.message or 0, None)
        open_ = self._channels.get(frame.channel)
        if open_ is None or frame.transaction is None:
            return
        if frame.step in (Packet.XA_START, Packet.XA_END):
            open_.branch = frame.transaction if frame.step == Packet.XA_START else None
        elif frame.step in ENDS:
            bound = self._bound.pop(frame.transaction, OpenTransaction[CoreFrame]())
            if frame.step in (Packet.ROLLBACK, Packet.XA_ROLLBACK):
                self._give_back(frame, bound.taken_off)
            open_.ends += frame.step in (Packet.COMMIT, Packet.ROLLBACK)
        elif frame.step in (Packet.SEND, Packet.ACKNOWLEDGE):
            self._bound[frame.transaction].add(frame.subject, frame.taken_off)

    def _give_back(self, frame: CoreFrame, taken_off: Iterable[CoreFrame]) -> None:
        """Record what a rollback returns: what was acknowledged in it; for a session's own, all its
        consumers have.
        """
        back = list(taken_off)
        if frame.step == Packet.ROLLBACK:
            for consumer, given in self._given.items():
                if consumer.startswith(f"{frame.channel}."):
                    back += given.values()
                    given.clear()
        for each in back:
            remember(self._returned[consumer_of(each)], each.message or 0, each)

    # -- what can be done to it --------------------------------------------------------------------

    def refuse(self, frame: CoreFrame, data: bytes, error: str) -> bytes:  # noqa: ARG002 - its number is enough
        """Return the EXCEPTION packet that refuses a request.

        Raises:
            UnableError: the packet requests no answer, or is never refused by this error.
        """
        return refusal_of(frame, error)

    def silence_s(self, way: Direction) -> float | None:
        """Return the time-out that the client requested for itself. The client's own time-out for
        the broker is half of it.
        """
        return self._ttl_s if way is Direction.REQUEST or self._ttl_s is None else self._ttl_s / 2


def _error(kind: int, whole: bytes) -> str | None:
    """Return why an answer refuses, where it does."""
    if kind == Kind.SESS_XA_RESP:
        return reading.refusal(whole)
    return reading.error(whole) if kind == Kind.EXCEPTION else None


def _step(kind: int) -> str:
    try:
        known = Kind(kind)
    except ValueError:
        return f"PACKET_{kind}"
    return SAME.get(known, known).name


def _is_numbered(kind: int, size: int, whole: bytes) -> bool:
    """Whether an answer ends in the number of what it answers."""
    if kind == Kind.NULL_RESPONSE:
        return size >= reading.HEAD + 8
    if kind != Kind.EXCEPTION:
        return False
    reader = reading.Reader(whole, reading.HEAD)
    reader.one(">i")
    reader.maybe("text")
    return size >= reader.at + 8


def _name(channel: int, correlation: int) -> str:
    return f"{channel}:{correlation}"


_TOLD: Final[Mapping[str, Act]] = {
    Packet.SEND: Act.SEND,
    Packet.RECEIVE: Act.GIVE,
    Packet.ACKNOWLEDGE: Act.ACK,
    Packet.COMMIT: Act.COMMIT,
    Packet.ROLLBACK: Act.COMMIT,
    Packet.XA_COMMIT: Act.COMMIT,
    Packet.XA_ROLLBACK: Act.COMMIT,
}


def _beginning(data: Data) -> Unframed | Opaque | None:
    """Return what a client begins with, if it is no packet: the greeting, or another protocol."""
    first = bytes(data[: len(GREETING)])
    if first == GREETING:
        return Unframed(len(GREETING))
    size = int.from_bytes(first[:LENGTH])
    kind = int.from_bytes(first[LENGTH : LENGTH + 1], signed=True)
    if size <= MOST_BYTES and kind in set(Kind):
        return None
    return Opaque(f"a connection that begins with {first!r}")


def _act(step: str, open_: _Channel | None) -> Act | None:
    """Return what a packet tells of records: where a commit is what acknowledges, it does, and the
    acknowledgement nothing.
    """
    if (
        open_ is not None
        and open_.acknowledges_by_commit
        and step in (Packet.ACKNOWLEDGE, Packet.COMMIT, Packet.ROLLBACK)
    ):
        return Act.ACK if step == Packet.COMMIT else None
    return _TOLD.get(step)
