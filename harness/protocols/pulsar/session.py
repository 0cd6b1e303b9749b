"""The state of one Pulsar connection: its client, its requests, unacknowledged deliveries, and open
transactions.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from harness.model.record import decode_id
from harness.protocols.pulsar import frames, payload
from harness.protocols.pulsar.frame import PulsarFrame
from harness.protocols.pulsar.lines import lines_of
from harness.protocols.pulsar.pieces import Pieces
from harness.protocols.pulsar.protobuf import MalformedError, Message
from harness.protocols.pulsar.said import (
    CUMULATIVE,
    KEEPALIVE,
    NUMBERED,
    REQUEST_FIELD,
    TOPIC_FIELD,
    Place,
    attempt_of,
    error_of,
    facts_of,
    owner_of,
    place_of,
    refusal_of,
    transaction_of,
    unacknowledged_of,
    written,
)
from harness.protocols.pulsar.steps import (
    EITHER_WAY,
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
from harness.wire.protocol import Insight, Need
from harness.wire.rules import Direction, Subject

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.model.events import Event
    from harness.model.identity import Identity
    from harness.wire.protocol import Data, Fed

SILENCE_S: Final = 30.0
"""How often each side asks whether the other is still there, and how long it then waits, as both
have it by default.
"""
CONNECTING: Final = "connecting"
_OVER: Final = frozenset({Command.CLOSE_CONSUMER, Command.SUBSCRIBE})
"""Behind these a consumer of this number has nothing that it was given before."""
Carried = tuple[tuple[str | None, str | None], ...]
"""Record and attempt of each message of a frame."""


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

    def known(self, name: str, carried: Carried) -> Carried:
        """Return the content of a last part. If it comes alone, that is the content known from
        another connection.
        """
        if any(record is not None for record, _ in carried):
            remember(self.sent, name, carried)
            return carried
        return self.sent.get(name, carried)

    def add(self, frame: PulsarFrame) -> None:
        """Add what a frame is about to its transaction."""
        if frame.transaction is not None:
            found = self.transactions.get(frame.transaction, OpenTransaction[PulsarFrame]())
            found.add(frame.subject)
            remember(self.transactions, frame.transaction, found)


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
    unreadable = (frames.NotAFrameError, MalformedError)

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

    def _next(self, way: Direction, data: Data) -> Fed:
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
            keepalive=command in KEEPALIVE,
            last=outlined is None or payload.is_last(outlined.metadata),
            transaction=transaction_of(command, head.said),
        )
        self._fill(frame, command)
        if command in NUMBERED:
            self._number(frame, command)
        if self._owner is None and command in TOPIC_FIELD and way is Direction.REQUEST:
            self._owner = head.said.text(TOPIC_FIELD[command]).rpartition("/")[2]
        self._numbers[way] += 1
        corr = frame.number = (
            frame.asked.number
            if frame.asked
            else self._numbers[way] * (1 if way is Direction.REQUEST else -1)
        )
        frame.facts = {"version": self._version, "corr": corr, **facts_of(frame)}
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
                self._owner = self._owner or owner_of(said)
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
        return waiting[-1 if place is not None and written(place_of(place)) is None else 0]

    def _number(self, frame: PulsarFrame, command: Command) -> None:
        """Say to which request it is the answer, or by which number it will be answered."""
        number = REQUEST_FIELD.get(command, 1)
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
            left = unacknowledged_of(each, 5)
            places[place_of(each)] = places.get(place_of(each), left) & left
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
        error = error_of(frame)
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
            frame.done = frozenset(range(len(found))) - unacknowledged_of(frame.said, 4)
        frame.carried = tuple(
            (None, None) if at in frame.done else (ledger.record(each), attempt_of(each))
            for at, each in enumerate(found)
        )
        if frame.last and payload.is_chunk(outlined.metadata) and frame.way is Direction.REQUEST:
            frame.carried = ledger.known(outlined.metadata.text(payload.UUID), frame.carried)
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

    def sending(self, frame: PulsarFrame) -> None:
        """Remember a frame that will be answered; of too many, forget the oldest."""
        said = frame.said
        if frame.step == Command.SEND:
            self._sends[said.number(1), said.number(2)].append(frame)
            if len(self._sends) > MAX_REMEMBERED:
                self._sends.pop(next(iter(self._sends)))
        elif frame.step == Command.MESSAGE:
            given, place = self._given[said.number(1)], place_of(said.inner(2))
            remember(given, place, frame)
        elif frame.way is Direction.REQUEST and frame.id is not None:
            remember(self._asked, str(frame.id), frame)

    def settled(
        self, frame: PulsarFrame, ledger: Ledger | None, *, reached: bool
    ) -> Iterable[Event]:
        """Return what the frame carried, now that its fate is known."""
        if reached:
            self._passed_on(frame, ledger)
        if frame.step in _OVER and (
            reached or frame.way is Direction.RESPONSE
        ):  # closed by the broker, whether or not the client has got the answer
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
            else tuple(lines_of(self._conn, frame, error_of(frame), reached=reached))
        )

    def _passed_on(self, frame: PulsarFrame, ledger: Ledger | None) -> None:
        if frame.step in (Command.ACK, Command.REDELIVER):
            given = self._given[frame.said.number(1)]
            for at, each in enumerate(frame.taken_off):
                each.done |= _all_of(each) - frame.kept.get(at, frozenset())
                if at not in frame.kept:
                    given.pop(place_of(each.said.inner(2)), None)
        if ledger is None:
            return
        if frame.message is not None and frame.part is not None:
            pieces, name = self._pieces_of(frame, frame.message.metadata, ledger)
            pieces.take(name, frame.message.metadata, frame.part)
        if frame.way is Direction.REQUEST and frame.step != Command.END_TXN:
            ledger.add(frame)

    def refuse(self, frame: PulsarFrame, data: bytes, error: str) -> bytes:  # noqa: ARG002 - what is answered is known
        """Return the answer that refuses a request.

        Raises:
            UnableError: the request gets no answer, or is never refused by this error.
        """
        return refusal_of(frame, error)

    def silence_s(self, way: Direction) -> float | None:  # noqa: ARG002 - both sides ask
        """Return the default time-out of both sides, which the protocol does not transmit."""
        return SILENCE_S


def _all_of(delivered: PulsarFrame) -> frozenset[int]:
    return frozenset(range(len(delivered.carried)))


def _done(delivered: PulsarFrame, kept: frozenset[int]) -> Iterable[tuple[str | None, str | None]]:
    """Return what of a delivery is acknowledged by what leaves ``kept``, and was not before."""
    return (delivered.carried[at] for at in sorted(_all_of(delivered) - delivered.done - kept))
