"""What the sessions of queue protocols share: the bookkeeping of a cell, open transactions, and
frames that wait for their answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from harness.model.record import decode_id
from harness.protocols.listening import Listening
from harness.wire.protocol import Frame, Insight
from harness.wire.rules import Direction, Subject

if TYPE_CHECKING:
    from collections import OrderedDict
    from collections.abc import Iterable, Mapping

    from harness.model.identity import Identity

F = TypeVar("F", bound=Frame)
K = TypeVar("K")
T = TypeVar("T")
MAX_REMEMBERED: Final = 10_000
"""The most frames that wait for one kind of answer, or deliveries of one consumer, that are
remembered.
"""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The bookkeeping of one cell: where its records carry their ids."""

    identity: Identity | None

    def record(self, content: bytes, properties: Mapping[str, object]) -> str | None:
        """Return the record id in a message; ``None`` if the message is not a record
        of this cell.
        """
        if self.identity is None:
            return decode_id(content)
        named = tuple((name, str(value).encode()) for name, value in properties.items())
        return self.identity.find(None, content, named)


@dataclass(slots=True)
class OpenTransaction(Generic[F]):
    """The frames of a transaction that has not ended. ``taken_off``: the deliveries that are
    acknowledged in it.
    """

    records: set[str] = field(default_factory=set)
    topics: set[str] = field(default_factory=set)
    taken_off: tuple[F, ...] = ()

    def add(self, subject: Subject, taken_off: tuple[F, ...] = ()) -> None:
        """Add what a frame is about."""
        self.records |= subject.records
        self.topics |= subject.topics
        self.taken_off += taken_off


class QueueProtocol:
    """A protocol whose destinations have one name each, and whose records are told apart by the
    offered ones.
    """

    def learn(self, names: Mapping[str, str]) -> None:
        """Do nothing: a destination has only one name."""

    def ledger(self, key: str, identity: Identity | None) -> Ledger:  # noqa: ARG002 - see the class
        """Make the bookkeeping of a cell."""
        return Ledger(identity)


class QueueSession(Listening[F]):
    """The state of one connection, as far as it is the same for every queue protocol.

    A broker delivers unacknowledged messages of a connection that has ended to another consumer, on
    whose connection that is seen.
    """

    def __init__(self, conn: int, limit: int) -> None:
        super().__init__()
        self._conn = conn
        self._limit = limit
        self._numbers = dict.fromkeys(Direction, 0)

    def too_large(self, frame: F) -> Insight:
        """Return that a frame was not read, which voids the cell."""
        because = f"{frame.size} bytes are above the limit of {self._limit}"
        return Insight(because=because, voids=True)


def subject_of(
    transaction: str | None, records: Iterable[str], topics: Iterable[str | None]
) -> Subject:
    """Return what a frame is about, whose transaction is this."""
    ids = frozenset[str]() if transaction is None else frozenset((transaction,))
    return Subject(frozenset(records), frozenset(each for each in topics if each is not None), ids)


def subject_of_all(transaction: str | None, subjects: Iterable[Subject]) -> Subject:
    """Return what an acknowledgement is about: everything that the deliveries are."""
    subjects = tuple(subjects)
    records = frozenset[str]().union(*(each.records for each in subjects))
    topics = frozenset[str]().union(*(each.topics for each in subjects))
    return subject_of(transaction, records, topics)


def remember(where: OrderedDict[K, T], name: K, what: T) -> None:
    """Remember something as the newest. If there is too much, the oldest is forgotten."""
    where.pop(name, None)
    where[name] = what
    if len(where) > MAX_REMEMBERED:
        where.popitem(last=False)


def other(way: Direction) -> Direction:
    """Return the other direction."""
    return Direction.RESPONSE if way is Direction.REQUEST else Direction.REQUEST
