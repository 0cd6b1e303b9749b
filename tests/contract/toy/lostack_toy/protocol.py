"""The protocol as the wire reads it: bytes in, values out. Implements
:class:`harness.wire.protocol.Protocol`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.model import events as kinds
from harness.model.events import Outcome
from harness.model.record import decode_id
from harness.wire.protocol import Frame, Immovable, Insight, Need, Opaque, Step, UnableError
from harness.wire.rules import Direction, StepName, Subject

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.model.events import Event
    from harness.model.identity import Identity
    from harness.wire.protocol import Data, Fed

RECORD = frozenset({"record", "topic"})
LONGEST = 1 << 20


class Verb(StepName):
    """The steps."""

    HELLO = "HELLO"
    PUT = "PUT"
    GET = "GET"
    ACK = "ACK"
    COUNT = "COUNT"

    def selects(self, direction: Direction) -> frozenset[str]:
        """Of GET, only the answer has a record."""
        return STEPS[str(self), direction].selects


STEPS = {(str(verb), way): Step() for verb in Verb for way in Direction} | {
    (str(Verb.PUT), Direction.REQUEST): Step(selects=RECORD, durable=True),
    (str(Verb.PUT), Direction.RESPONSE): Step(selects=RECORD),
    (str(Verb.GET), Direction.RESPONSE): Step(selects=RECORD),
    (str(Verb.ACK), Direction.REQUEST): Step(selects=RECORD, durable=True),
    (str(Verb.ACK), Direction.RESPONSE): Step(selects=RECORD),
}


@dataclass(slots=True, eq=False)
class ToyFrame(Frame):
    """A line."""

    way: Direction = Direction.REQUEST
    words: list[str] = field(default_factory=list)
    number: int = 0
    asked: ToyFrame | None = None
    subject: Subject = field(default_factory=Subject)


class Toy:
    """The protocol."""

    name = "toy"
    steps = STEPS

    def learn(self, names: Mapping[str, str]) -> None:
        """Queues have one name."""

    def ledger(self, key: str, identity: Identity | None) -> str:
        """Nothing is kept of a cell."""
        del identity
        return key

    def session(self, conn: int, *, limit: int) -> ToySession:
        """Begin a connection."""
        del limit
        return ToySession(conn)


class ToySession:
    """One connection."""

    def __init__(self, conn: int) -> None:
        self._conn = conn
        self._owner: str | None = None
        self._count = 0
        self._asked: deque[ToyFrame] = deque()
        """Requests that are not answered, the oldest first."""
        self._fed: dict[Direction, ToyFrame] = {}
        self._given: dict[str, Subject] = {}
        """What was given, by its number."""

    def feed(self, way: Direction, data: Data) -> Fed:
        """Find the end of the line."""
        if way not in self._fed:
            end = bytes(data).find(b"\n")
            if end < 0:
                return (
                    Need(len(data) + 1) if len(data) < LONGEST else Opaque("a line without an end")
                )
            words = bytes(data[:end]).decode("ascii", "replace").split()
            asked = self._asked[0] if way is Direction.RESPONSE and self._asked else None
            wanted = tuple(Verb) if way is Direction.REQUEST else (asked.step,) if asked else ()
            if not words or words[0] not in wanted:
                return Opaque(f"a line that begins with {words[:1]}")
            self._count += way is Direction.REQUEST
            number = asked.number if asked else self._count
            facts = {"version": 1, "corr": number}
            self._fed[way] = ToyFrame(
                words[0],
                end + 1,
                None if asked else number,
                (number,) if asked else (),
                end + 1,
                facts=facts,
                way=way,
                words=words,
                number=number,
                asked=asked,
            )
            if words[0] == Verb.HELLO and way is Direction.REQUEST:
                self._owner = "".join(words[1:2])
        return self._fed[way]

    def taken(self, way: Direction, size: int) -> None:
        """The next line may be looked at."""
        del size
        if self._fed.pop(way, None) and way is Direction.RESPONSE:
            self._asked.popleft()

    def read(self, frame: Frame, data: bytes | None, ledger: Any) -> Insight:
        """Say which record a line is about."""
        del data, ledger
        assert isinstance(frame, ToyFrame)
        match frame.way, frame.words:
            case Direction.REQUEST, [Verb.PUT, queue, _, body]:
                frame.subject = about(queue, body)
            case Direction.REQUEST, [Verb.ACK, number]:
                frame.subject = self._given.get(number, Subject())
            case Direction.RESPONSE, [Verb.GET, number, _, body] if frame.asked:
                frame.subject = self._given[number] = about(frame.asked.words[1], body)
            case Direction.RESPONSE, _ if frame.asked:
                frame.subject = frame.asked.subject
        return Insight(frame.subject, 0 if frame.way is Direction.RESPONSE else None)

    def sending(self, frame: Frame) -> None:
        """A request will be answered."""
        assert isinstance(frame, ToyFrame)
        if frame.way is Direction.REQUEST:
            self._asked.append(frame)

    def settled(self, frame: Frame, ledger: Any, *, reached: bool) -> Iterable[Event]:
        """Say what became of it."""
        del ledger
        assert isinstance(frame, ToyFrame)
        answer, request = frame.way is Direction.RESPONSE, f"{self._conn}:{frame.number}"
        for record in frame.subject.records:
            queue = next(iter(frame.subject.topics))
            match frame.step:
                case Verb.PUT if answer:
                    yield kinds.ProduceAnswer(
                        record=record, request=request, error=0, reached=reached
                    )
                case Verb.PUT:
                    yield (kinds.Sent if reached else kinds.Unsent)(
                        record=record, request=request, topic=queue, attempt=frame.words[2]
                    )
                case Verb.GET:
                    yield kinds.Fetched(
                        record=record,
                        topic=queue,
                        conn=self._conn,
                        redelivered=frame.words[2] != "1",
                        reached=reached,
                    )
                case Verb.ACK:
                    yield kinds.Acknowledged(
                        record=record,
                        request=request,
                        how="ack",
                        outcome=Outcome.TAKEN if answer else None,
                        reached=reached,
                    )

    def refuse(self, frame: Frame, data: bytes, error: str) -> bytes:
        """There are no errors."""
        del data
        raise UnableError(f"the toy refuses nothing, and no {frame.step} with {error}")

    def move(self, frame: Frame, data: bytes) -> Immovable:
        """Nothing is moved."""
        del frame, data
        return Immovable("belongs to its connection")

    def owner(self) -> str | None:
        """Return what HELLO has said."""
        return self._owner

    def silence_s(self, way: Direction) -> float | None:
        """Nobody hangs up."""
        del way
        return None

    def ended(self, by: str, ledger: Any) -> Iterable[Event]:
        """The server says what it gives again."""
        del by, ledger
        return ()


def about(queue: str, body: str) -> Subject:
    """Return the subject of a message."""
    try:
        record = decode_id(bytes.fromhex(body))
    except ValueError:
        record = None
    return Subject(frozenset() if record is None else frozenset((record,)), frozenset((queue,)))
