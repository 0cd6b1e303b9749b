"""The interface between a stage and a client library. An adapter translates calls; it takes no
decisions.

Partitions and offsets are plain numbers. A position is the offset of the next record. Every
exception of a client becomes a :class:`ClientError` with its meaning; its text begins with the
client's own name for the error.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.stages.stage import Stage


class Meaning(Enum):
    """What an error means for the record, the transaction or the position that it is about."""

    NEVER_APPENDED = auto()
    """The broker returned the error before it appended the record: the attempt is *refused*."""
    FENCED = auto()
    """Another process uses the transactional id, or the id of the group's member, now: this one is
    fenced, and cannot go on.
    """
    PUT_OUT = auto()
    """The group has removed this consumer, which must join again."""
    UNKNOWN = auto()
    """Every other error: the request may have been carried out, or not."""


class ClientError(Exception):
    """An error of a client. The message is ``"ErrorName: text"``, at most 300 characters."""

    def __init__(self, name: str, said: object, meaning: Meaning = Meaning.UNKNOWN) -> None:
        super().__init__(f"{name}: {said}"[:300])
        self.name = name
        self.meaning = meaning


@dataclass(frozen=True, slots=True)
class Delivered:
    """A record as it was delivered. ``leader_epoch`` is -1 if the client does not report it.

    ``deliveries``: for a share group, the number of this delivery, counted from 1; else -1.
    """

    topic: str
    partition: int
    leader_epoch: int
    offset: int
    key: bytes | None
    value: bytes
    deliveries: int = -1


class Answer(StrEnum):
    """The answer of a share group's reader for a record that it was given."""

    ACCEPT = "ACCEPT"
    """The record is done (accept)."""
    RELEASE = "RELEASE"
    """The broker must deliver the record again (release)."""
    REJECT = "REJECT"
    """The broker must not deliver the record again (reject)."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The place of an acknowledged record. ``offset`` is -1 if the broker did not report it
    (acks=0).
    """

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Membership:
    """A consumer's group metadata at one moment. ``token``: the client's object. ``member``:
    whether it is in the group.
    """

    token: Any
    member: bool


Position = dict[int, int]
"""``{partition: offset of the next record}``."""


class Pending(Protocol):
    """A record that is being sent."""

    def wait(self, within_s: float) -> Stored | None:
        """Wait for the outcome; ``None`` means acknowledged by a broker that reports no place.

        Raises:
            ClientError: the record was refused, or its outcome is unknown.
        """


class Producer(Protocol):
    """A producer. Every method may raise :class:`ClientError`."""

    def init_transactions(self) -> None:
        """Fence other producers with this transactional id, and end the transactions that they left
        open.
        """

    def begin(self) -> None:
        """Begin a transaction."""

    def commit(self) -> None:
        """Commit the transaction. Returns only if the broker has confirmed it."""

    def abort(self) -> None:
        """Abort the transaction."""

    def send_offsets(self, topic: str, positions: Position, membership: Membership) -> None:
        """Add a group's positions to the transaction."""

    def send(
        self, topic: str, value: bytes, key: bytes | None, headers: Sequence[tuple[str, bytes]]
    ) -> Pending:
        """Pass a record to the client."""

    def close(self, within_s: float) -> None:
        """Close the producer. ``within_s``: how many seconds to wait for records that are still
        being sent.
        """


class Consumer(Protocol):
    """A consumer of the stage's group. Every method may raise :class:`ClientError`."""

    def subscribe(self, topic: str, assigned: Callable[[list[int]], Mapping[int, int]]) -> None:
        """Join the group. ``assigned`` gets the assigned partitions (sorted, at least one), and
        returns where to start.
        """

    def poll(self, most: int, within_s: float) -> list[Delivered]:
        """Return the records that have arrived, at most ``most``; none while no broker can be
        reached.
        """

    def commit(self, topic: str, positions: Position, within_s: float) -> None:
        """Save positions and wait for the answer."""

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Continue reading the partition at an offset."""

    def assignment(self) -> frozenset[int]:
        """Return the partitions that are assigned to this consumer now."""

    def position(self, topic: str, partition: int) -> int | None:
        """Return the next offset in an assigned partition; ``None`` if this client does not keep it
        over a rebalance.
        """

    def membership(self) -> Membership:
        """Return the current group metadata."""


class Sharer(Protocol):
    """A reader of a share group. Every method may raise :class:`ClientError`."""

    def subscribe(self, topic: str) -> None:
        """Join the group."""

    def poll(self, within_s: float) -> list[Delivered]:
        """Return the records that have arrived. They are locked for this reader for a
        limited time.
        """

    def answer(self, message: Delivered, answer: Answer) -> None:
        """Set the answer for a record. The next commit or poll sends it."""

    def commit(self, within_s: float) -> None:
        """Send the answers, and wait for the brokers' results."""


class Sharing(Protocol):
    """An adapter module whose client supports share groups."""

    def make_sharer(self, stage: Stage) -> Sharer:
        """Return a reader of the stage's share group, not subscribed yet."""


class Client(Protocol):
    """An adapter module."""

    def make_producer(self, stage: Stage, *, transactional_id: str) -> Producer:
        """Return a producer with the stage's settings.

        Raises:
            SettingsRefusedError: the client refuses the settings.
        """

    def make_consumer(self, stage: Stage) -> Consumer:
        """Return a consumer of the stage's group, not subscribed yet."""

    def last_committed(self, stage: Stage, topic: str) -> bytes | None:
        """Return the last value that a read-committed reader sees in a topic of one partition."""
