"""The state of one Pulsar connection: its client, its requests, unacknowledged deliveries, and open
transactions.
"""

from __future__ import annotations

import re
from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from harness.model.record import ATTEMPT_HEADER, decode_id
from harness.protocols.pulsar import frames, payload
from harness.protocols.pulsar.frame import PulsarFrame
from harness.protocols.pulsar.lines import lines_of
from harness.protocols.pulsar.pieces import Pieces
from harness.protocols.pulsar.protobuf import MalformedError, Message
from harness.protocols.pulsar.steps import (
    ANSWERED_BY,
    EITHER_WAY,
    ERRORS,
    NUMBERS,
    OF_NUMBER,
    STEPS,
    TO_CLIENT,
    Command,
)
from harness.protocols.queues import (
    MAX_REMEMBERED,
    OpenTransaction,
    QueueSession,
    remember,
    subject_of,
)
from harness.wire.protocol import PLAIN, Insight, Need, Opaque, UnableError
from harness.wire.rules import Direction, Subject

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.model.identity import Identity
    from harness.wire.protocol import Data, Fed, Line

SILENCE_S: Final = 30.0
"""How often each side asks whether the other is still there, and how long it then waits, as both
have it by default.
"""
CONNECTING: Final = "connecting"
BASIC: Final = "basic"
CUMULATIVE: Final = 1
COMMITS: Final = 0
_DESCRIBED: Final = re.compile(r"^Pulsar-[A-Za-z+]+-v[0-9][^-]*-(.+)$")
"""A version of a client, behind which stands how its program describes itself."""
_KEEPALIVE: Final = (Command.PING, Command.PONG)
_REQUEST_FIELD: Final[Mapping[Command, int]] = {
    Command.SUBSCRIBE: 5,
    Command.PRODUCER: 3,
    Command.ACK: 8,
    Command.PARTITIONED_METADATA: 2,
    Command.LOOKUP: 2,
    Command.UNSUBSCRIBE: 2,
    Command.CLOSE_PRODUCER: 2,
    Command.CLOSE_CONSUMER: 2,
    Command.SEEK: 2,
    Command.GET_LAST_MESSAGE_ID: 2,
    Command.PARTITIONED_METADATA_RESPONSE: 2,
    Command.LOOKUP_RESPONSE: 4,
    Command.GET_LAST_MESSAGE_ID_RESPONSE: 2,
    Command.ACK_RESPONSE: 6,
}
"""Where a command has the number of the request, if not in its first field."""
_NUMBERED: Final = frozenset(Command) - {
    Command.CONNECT,
    Command.CONNECTED,
    Command.SEND,
    Command.SEND_RECEIPT,
    Command.SEND_ERROR,
    Command.MESSAGE,
    Command.FLOW,
    Command.REDELIVER,
    *_KEEPALIVE,
    Command.REACHED_END_OF_TOPIC,
    Command.ACTIVE_CONSUMER_CHANGE,
    Command.AUTH_CHALLENGE,
    Command.AUTH_RESPONSE,
    Command.WATCH_TOPIC_UPDATE,
    Command.TOPIC_MIGRATED,
}
_TOPIC_FIELD: Final = {
    Command.SUBSCRIBE: 1,
    Command.PRODUCER: 1,
    Command.PARTITIONED_METADATA: 1,
    Command.LOOKUP: 1,
}
_TRANSACTION_FIELDS: Final[Mapping[Command, tuple[int, int]]] = {
    **{
        command: (2, 3)
        for command in Command
        if "_TXN" in command and command is not Command.NEW_TXN
    },
    Command.SEND: (4, 5),
    Command.ACK: (6, 7),
    Command.ACK_RESPONSE: (2, 3),
}
"""Where a command has the two halves, least and most, of the id of a transaction."""
_ERROR_FIELD: Final[Mapping[Command, int]] = {
    Command.SEND_ERROR: 3,
    Command.ERROR: 2,
    Command.ACK_RESPONSE: 4,
    Command.PARTITIONED_METADATA_RESPONSE: 4,
    Command.LOOKUP_RESPONSE: 6,
    Command.TC_CLIENT_CONNECT_RESPONSE: 2,
    **dict.fromkeys(
        (answer for answer in ANSWERED_BY.values() if answer is not Command.SEND_ERROR), 4
    ),
}
_OVER: Final = frozenset({Command.CLOSE_CONSUMER, Command.SUBSCRIBE})
"""Behind these a consumer of this number has nothing that it was given before."""
T = TypeVar("T")
Name = TypeVar("Name")
_NAMES: Final = {number: name for name, number in ERRORS.items()}
Carried = tuple[tuple[str | None, str | None], ...]
"""Record and attempt of each message of a frame."""
Place = tuple[int, int]
"""Ledger and entry. The partition may be there or not: a consumer has one, and not every
acknowledgement names it.
"""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The bookkeeping of one cell: where its records carry their ids, and state that outlives a
    connection.
    """

    identity: Identity | None
    sent: OrderedDict[str, Carried] = field(default_factory=OrderedDict)
    """The content of chunked messages by their id. A message's last part may come again on another
    connection.
    """
    pieces: Pieces = field(default_factory=Pieces)
    """Of messages that are sent."""
    transactions: OrderedDict[str, OpenTransaction[PulsarFrame]] = field(
        default_factory=OrderedDict
    )
    """By the broker's names for them. The end of one is asked for again where its answer did not
    come.
    """

    def record(self, single: payload.Single) -> str | None:
        """Return the record id in a message; ``None`` if the message is not a record
        of this cell.
        """
        return (
            decode_id(single.value)
            if self.identity is None
            else self.identity.find(None, single.value, single.properties)
        )


class Pulsar:
    """The protocol Pulsar, as the wire reads it."""

    name = "pulsar"
    steps = STEPS

    def learn(self, names: Mapping[str, str]) -> None:
        """Do nothing: a topic has only one name."""

    def ledger(self, key: str, identity: Identity | None) -> Ledger:  # noqa: ARG002 - record ids are told apart by the offered ones
        """Make the bookkeeping of a cell."""
        return Ledger(identity)

    def session(self, conn: int, *, limit: int) -> PulsarSession:
        """Return the state of a new connection."""
        return PulsarSession(conn, limit)


class PulsarSession(QueueSession[PulsarFrame]):
    """The state of one connection."""

    immovable = "belongs to its connection, as producers and consumers do"

    def __init__(self, conn: int, limit: int) -> None:
        super().__init__(conn, limit)
        self._version = 0
        self._asked: OrderedDict[str, PulsarFrame] = OrderedDict()
        self._sends: defaultdict[tuple[int, int], deque[PulsarFrame]] = defaultdict(deque)
        """By producer and sequence: what waits for a receipt, in order."""
        self._topics: dict[tuple[Command, int], str] = {}
        """By PRODUCER or SUBSCRIBE and the number of the producer or consumer."""
        self._given: defaultdict[int, OrderedDict[Place, PulsarFrame]] = defaultdict(OrderedDict)
        """By consumer: what was delivered and waits to be acknowledged."""
        self._pieces = Pieces()
        """Of messages that are delivered, by consumer: each consumer puts its own together."""

    # -- frames ------------------------------------------------------------------------------------

    def feed(self, way: Direction, data: Data) -> Fed:
        """Find the next frame."""
        known = self._heard.get(way)
        if known is not None:
            return known
        try:
            fed = self._frame(way, data)
        except (frames.NotAFrameError, MalformedError) as error:
            return Opaque(str(error))
        if isinstance(fed, PulsarFrame):
            self._heard[way] = fed
        return fed

    def _frame(self, way: Direction, data: Data) -> Fed:
        head = frames.head(data)
        if isinstance(head, int):
            return Need(head)
        command = OF_NUMBER.get(head.type)
        known = command is not None and (
            command in EITHER_WAY or (command in TO_CLIENT) is (way is Direction.RESPONSE)
        )
        if command is None or not known:
            raise frames.NotAFrameError(f"a command of type {head.type}")
        outlined = (
            frames.outline(data, head.end, head.size)
            if command in (Command.SEND, Command.MESSAGE)
            else None
        )
        if isinstance(outlined, int):
            return Need(outlined)
        frame = PulsarFrame(
            command,
            head.size,
            way=way,
            said=head.said,
            message=outlined,
            keepalive=command in _KEEPALIVE,
            last=outlined is None or payload.is_last(outlined.metadata),
            transaction=_transaction(command, head.said),
        )
        self._fill(frame, command)
        if command in _NUMBERED:
            self._number(frame, command)
        if self._owner is None and command in _TOPIC_FIELD and way is Direction.REQUEST:
            self._owner = head.said.text(_TOPIC_FIELD[command]).rpartition("/")[2]
        self._numbers[way] += 1
        corr = frame.number = (
            frame.asked.number
            if frame.asked
            else self._numbers[way] * (1 if way is Direction.REQUEST else -1)
        )
        frame.facts = {"version": self._version, "corr": corr, **_facts(frame)}
        frame.head = 0 if frame.keepalive else frame.size
        return frame

    def _fill(self, frame: PulsarFrame, command: Command) -> None:
        """Fill in the frame's topic, and the request that it answers or the id by which it will be
        answered.
        """
        said = frame.said
        match command:
            case Command.CONNECT:
                frame.id = CONNECTING
                self._version = said.number(4)
                self._owner = self._owner or _name(said)
            case Command.CONNECTED:
                frame.asked, frame.answers = self._asked.get(CONNECTING), (CONNECTING,)
            case Command.SEND:
                frame.id = f"send-{self._numbers[frame.way] + 1}"
                frame.topic = self._topics.get((Command.PRODUCER, said.number(1)))
            case Command.SEND_RECEIPT | Command.SEND_ERROR:
                frame.asked = self._sent(command, said)
                frame.answers = () if frame.asked is None else (str(frame.asked.id),)
            case Command.MESSAGE:
                frame.id = f"message-{self._numbers[frame.way] + 1}"
                frame.topic = self._topics.get((Command.SUBSCRIBE, said.number(1)))
            case Command.ACK | Command.REDELIVER:
                self._about(frame, command)
            case Command.SUBSCRIBE | Command.PRODUCER:
                frame.topic = said.text(1)
                self._topics[command, said.number(4 if command is Command.SUBSCRIBE else 2)] = (
                    frame.topic
                )

    def _sent(self, command: Command, said: Message) -> PulsarFrame | None:
        """Return what a receipt is of: parts are stored in order; a last one that is there already
        is answered before them.
        """
        waiting = self._sends.get((said.number(1), said.number(2)))
        if not waiting:
            return None
        place = said.inner(3) if command is Command.SEND_RECEIPT and 3 in said else None  # noqa: PLR2004 - message_id
        return waiting[-1 if place is not None and _written(_place(place)) is None else 0]

    def _number(self, frame: PulsarFrame, command: Command) -> None:
        """Say to which request it is the answer, or by which number it will be answered."""
        number = _REQUEST_FIELD.get(command, 1)
        if number not in frame.said:
            return
        name = f"request-{frame.said.number(number)}"
        if frame.way is Direction.REQUEST:
            frame.id = name
        elif command not in EITHER_WAY:
            frame.asked, frame.answers = self._asked.get(name), (name,)

    def _about(self, frame: PulsarFrame, command: Command) -> None:
        """Find the deliveries that are acknowledged, or refused."""
        said, number = frame.said, frame.said.number(1)
        given = self._given.get(number, OrderedDict[Place, PulsarFrame]())
        named = said.inners(3 if command is Command.ACK else 2)
        places: dict[Place, frozenset[int]] = {}
        """By place: what of a batch is not acknowledged yet."""
        for each in named:
            left = _left(each, 5)
            places[_place(each)] = places.get(_place(each), left) & left
        if command is Command.REDELIVER and not named:
            found = dict(given)
        elif command is Command.ACK and said.number(2) == CUMULATIVE and places:
            upto = max(places)
            found = {place: each for place, each in given.items() if place <= upto}
        else:
            found = {place: given[place] for place in places if place in given}
        frame.taken_off = tuple(found.values())
        frame.answers = (
            tuple(str(each.id) for each in frame.taken_off) if command is Command.ACK else ()
        )
        frame.topic = self._topics.get((Command.SUBSCRIBE, number))
        frame.kept = {at: places[place] for at, place in enumerate(found) if places.get(place)}

    # -- what they are about -----------------------------------------------------------------------

    def read(self, frame: PulsarFrame, data: bytes | None, ledger: Ledger) -> Insight:
        """Say which records a frame carries, acknowledges or commits."""
        if frame.message is not None:
            return self._read_message(frame, data, frame.message, ledger)
        error = _error(frame)
        if frame.asked is not None:
            subject = frame.asked.subject
            ids = subject.transactional_ids | ({frame.transaction} if frame.transaction else set())
            frame.subject = Subject(subject.records, subject.topics, frozenset(ids))
        elif frame.step == Command.END_TXN:
            transaction = ledger.transactions.get(
                frame.transaction or "", OpenTransaction[PulsarFrame]()
            )
            frame.subject = subject_of(frame.transaction, transaction.records, transaction.topics)
        else:
            frame.carried = tuple(
                each
                for at, one in enumerate(frame.taken_off)
                for each in _done(one, frame.kept.get(at, frozenset()))
            )
            frame.subject = subject_of(
                frame.transaction, (r for r, _ in frame.carried if r is not None), (frame.topic,)
            )
        return Insight(frame.subject, error)

    def _read_message(
        self, frame: PulsarFrame, data: bytes | None, outlined: frames.Outline, ledger: Ledger
    ) -> Insight:
        if data is None:
            return self.too_large(frame)
        frame.subject = subject_of(frame.transaction, (), (frame.topic,))
        try:
            whole = self._whole(frame, outlined, data, ledger)
            found = () if whole is None else payload.singles(outlined.metadata, whole)
        except (payload.NotReadError, MalformedError) as error:
            return Insight(frame.subject, because=str(error), voids=True)
        if (
            4 in frame.said  # noqa: PLR2004
            and frame.way is Direction.RESPONSE
            and payload.IN_BATCH in outlined.metadata
        ):
            frame.done = frozenset(range(len(found))) - _left(frame.said, 4)
        frame.carried = tuple(
            (None, None) if at in frame.done else (ledger.record(each), _attempt(each))
            for at, each in enumerate(found)
        )
        if frame.last and payload.is_chunk(outlined.metadata) and frame.way is Direction.REQUEST:
            frame.carried = self._known(outlined.metadata.text(payload.UUID), frame.carried, ledger)
        frame.subject = subject_of(
            frame.transaction, (r for r, _ in frame.carried if r is not None), (frame.topic,)
        )
        return Insight(frame.subject)

    def _whole(
        self, frame: PulsarFrame, outlined: frames.Outline, data: bytes, ledger: Ledger
    ) -> bytes | None:
        """Return the payload that a frame makes whole, if it does.

        Raises:
            NotReadError: it cannot be read, or its reader may take it or not.
        """
        if not frames.is_sound(outlined, data):
            raise payload.NotReadError("a message with a wrong checksum")
        metadata, part = outlined.metadata, data[outlined.payload :]
        if not payload.is_chunk(metadata):
            return part
        frame.part = part
        pieces, name = self._pieces_of(frame, metadata, ledger)
        return pieces.whole(name, metadata, part)

    def _pieces_of(
        self, frame: PulsarFrame, metadata: Message, ledger: Ledger
    ) -> tuple[Pieces, tuple[object, ...]]:
        """Return where the other parts of a message are, and its name there."""
        holder = None if frame.way is Direction.REQUEST else frame.said.number(1)
        return (ledger.pieces if holder is None else self._pieces), (
            holder,
            metadata.text(payload.UUID),
        )

    def _known(self, name: str, carried: Carried, ledger: Ledger) -> Carried:
        """Return the content of a last part. If it comes alone, that is the content known from
        another connection.
        """
        if any(record is not None for record, _ in carried):
            remember(ledger.sent, name, carried)
            return carried
        return ledger.sent.get(name, carried)

    def sending(self, frame: PulsarFrame) -> None:
        """Remember a frame that will be answered. If there are too many, the oldest is
        forgotten.
        """
        said = frame.said
        if frame.step == Command.SEND:
            self._sends[said.number(1), said.number(2)].append(frame)
            if len(self._sends) > MAX_REMEMBERED:
                self._sends.pop(next(iter(self._sends)))
        elif frame.step == Command.MESSAGE:
            given, place = self._given[said.number(1)], _place(said.inner(2))
            remember(given, place, frame)
        elif frame.way is Direction.REQUEST and frame.id is not None:
            remember(self._asked, str(frame.id), frame)

    def settled(
        self, frame: PulsarFrame, ledger: Ledger | None, *, reached: bool
    ) -> Iterable[Line]:
        """Return what the frame carried, now that its fate is known."""
        if reached:
            self._passed_on(frame, ledger)
        if frame.step in _OVER and (
            reached or frame.way is Direction.RESPONSE
        ):  # what a broker has closed is, whoever hears of it
            number = frame.said.number(4 if frame.step == Command.SUBSCRIBE else 1)
            self._given.pop(number, None)
            self._pieces.forget(number)
        if frame.step in (Command.SEND_RECEIPT, Command.SEND_ERROR) and frame.asked is not None:
            key = (frame.said.number(1), frame.said.number(2))
            waiting = self._sends.get(key)
            if waiting:
                waiting = self._sends[key] = deque(
                    each for each in waiting if each is not frame.asked
                )
            if not waiting:
                self._sends.pop(key, None)
        elif frame.answers and frame.way is Direction.RESPONSE:
            self._asked.pop(str(frame.answers[0]), None)
        return (
            ()
            if ledger is None
            else tuple(lines_of(self._conn, frame, _error(frame), reached=reached))
        )

    def _passed_on(self, frame: PulsarFrame, ledger: Ledger | None) -> None:
        if frame.step in (Command.ACK, Command.REDELIVER):
            given = self._given[frame.said.number(1)]
            for at, each in enumerate(frame.taken_off):
                each.done |= _all_of(each) - frame.kept.get(at, frozenset())
                if at not in frame.kept:
                    given.pop(_place(each.said.inner(2)), None)
        if ledger is None:
            return
        if frame.message is not None and frame.part is not None:
            pieces, name = self._pieces_of(frame, frame.message.metadata, ledger)
            pieces.take(name, frame.message.metadata, frame.part)
        if (
            frame.transaction is not None
            and frame.way is Direction.REQUEST
            and frame.step != Command.END_TXN
        ):
            found = ledger.transactions.get(frame.transaction, OpenTransaction[PulsarFrame]())
            found.add(frame.subject)
            remember(ledger.transactions, frame.transaction, found)

    def refuse(self, frame: PulsarFrame, data: bytes, error: str) -> bytes:  # noqa: ARG002 - what is answered is known
        """Return the answer that refuses a request.

        Raises:
            UnableError: the request gets no answer, or is never refused by this error.
        """
        if (
            error not in STEPS.get((frame.step, Direction.REQUEST), PLAIN).errors
            or frame.id is None
        ):
            raise UnableError(f"a {frame.step} cannot be refused by {error!r}")
        command = Command(frame.step)
        answer, said, code = ANSWERED_BY[command], frame.said, ERRORS[error]
        if command is Command.SEND:
            return frames.command(
                NUMBERS[answer], {1: said.number(1), 2: said.number(2), 3: code, 4: error}
            )
        request = said.number(_REQUEST_FIELD.get(command, 1))
        halves = (
            {}
            if frame.transaction is None
            else dict(zip((3, 2), map(int, frame.transaction.split(":")), strict=True))
        )
        own = {1: said.number(1), 6: request} if command is Command.ACK else {1: request}
        return frames.command(NUMBERS[answer], own | halves | {4: code, 5: error})

    def silence_s(self, way: Direction) -> float | None:  # noqa: ARG002 - both sides ask
        """Return the default time-out of both sides, which the protocol does not transmit."""
        return SILENCE_S


def _facts(frame: PulsarFrame) -> dict[str, object]:
    """Return what a command says of itself: what rules select by, and what its line in the history
    has.
    """
    said, command = frame.said, frame.step
    facts: dict[str, object] = {"topic": frame.topic, "transaction": frame.transaction}
    if command in (Command.SEND, Command.SEND_RECEIPT, Command.SEND_ERROR):
        facts |= {"producer": said.number(1), "sequence": said.number(2)}
    if frame.message is not None and payload.is_chunk(frame.message.metadata):
        metadata = frame.message.metadata
        facts |= {"message": metadata.text(payload.UUID), "part": metadata.number(payload.CHUNK)}
    if command == Command.SEND_RECEIPT and 3 in said:  # noqa: PLR2004 - message_id
        facts["place"] = _written(_place(said.inner(3)))
    if command == Command.MESSAGE:
        facts |= {
            "consumer": said.number(1),
            "place": _written(_place(said.inner(2))),
            "redelivered": said.number(3),
        }
    if command in (Command.ACK, Command.REDELIVER):
        ids = said.inners(3 if command == Command.ACK else 2)
        facts |= {"consumer": said.number(1), "places": [_written(_place(each)) for each in ids]}
    if frame.discards:
        facts["discards"] = True
    if command == Command.SUBSCRIBE:
        facts |= {"subscription": said.text(2), "shared": said.number(3)}
    if command == Command.PRODUCER:
        facts["producer"] = said.text(4)
    if command == Command.END_TXN:
        facts["commit"] = said.number(4) == COMMITS
    return {name: value for name, value in facts.items() if value is not None}


def _name(connect: Message) -> str | None:
    """Return the user that a CONNECT names, or how the program describes itself."""
    if connect.text(5) == BASIC:
        return connect.text(3).partition(":")[0] or None
    described = _DESCRIBED.match(connect.text(1))
    return described[1] if described else None


def _transaction(command: Command, said: Message) -> str | None:
    fields = _TRANSACTION_FIELDS.get(command)
    return None if fields is None else payload.transaction_of(said, fields)


def _place(message_id: Message) -> Place:
    return message_id.signed(1), message_id.signed(2)


def _left(said: Message, field: int) -> frozenset[int]:
    """Return the places of a batch that a set (``ack_set``) says are not acknowledged yet."""
    words = said.numbers(field)
    return frozenset(n for n in range(64 * len(words)) if words[n // 64] >> n % 64 & 1)


def _written(place: Place) -> str | None:
    """Return a place as a text; ``None`` where a broker names none, since it has stored nothing."""
    ledger, entry = place
    return None if ledger < 0 or entry < 0 else f"{ledger}:{entry}"


def _attempt(single: payload.Single) -> str | None:
    return next(
        (
            value.decode("utf-8", "replace")
            for name, value in single.properties
            if name == ATTEMPT_HEADER
        ),
        None,
    )


def _all_of(delivered: PulsarFrame) -> frozenset[int]:
    return frozenset(range(len(delivered.carried)))


def _done(delivered: PulsarFrame, kept: frozenset[int]) -> Iterable[tuple[str | None, str | None]]:
    """Return what of a delivery is acknowledged by what leaves ``kept``, and was not before."""
    return (delivered.carried[at] for at in sorted(_all_of(delivered) - delivered.done - kept))


def _error(frame: PulsarFrame) -> int | str | None:
    """Return the error of an answer; 0 if it does not refuse, ``None`` if the frame is not an
    answer.
    """
    if frame.way is Direction.REQUEST or frame.step == Command.MESSAGE:
        return None
    number = _ERROR_FIELD.get(Command(frame.step))
    if number is None or number not in frame.said:
        return 0
    code = frame.said.number(number)
    return _NAMES.get(code, f"ServerError {code}")
