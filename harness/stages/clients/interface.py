"""What a stage needs of a client, in the project's own words. An adapter translates; it decides nothing.

Partitions and offsets are plain numbers, a position is the offset of the next record. Whatever a client complains of
becomes a :class:`ClientError` that says what it means; its text begins with the client's own name for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.stages.stage import Stage


class Meaning(Enum):
    """What a complaint means for the record, the transaction or the position that it is about."""

    NEVER_APPENDED = auto()
    """A broker returned it before it appended: the attempt is *refused*."""
    FENCED = auto()
    """Another producer has the transactional id: this one may do nothing more."""
    PUT_OUT = auto()
    """The group goes on without this consumer, which must join again."""
    UNKNOWN = auto()
    """Everything else: it may have been done, or not."""


class ClientError(Exception):
    """A client's complaint: ``"NameOfIt: what it said"``, at most 300 characters."""

    def __init__(self, name: str, said: object, meaning: Meaning = Meaning.UNKNOWN) -> None:
        super().__init__(f"{name}: {said}"[:300])
        self.name = name
        self.meaning = meaning


@dataclass(frozen=True, slots=True)
class Delivered:
    """A record as it was delivered. ``leader_epoch`` is -1 where the client does not tell.

    ``deliveries``: of a share group, the how-manieth delivery of it this is; else -1.
    """

    topic: str
    partition: int
    leader_epoch: int
    offset: int
    key: bytes | None
    value: bytes
    deliveries: int = -1


class Answer(StrEnum):
    """What a reader of a share group says of a record that it was given."""

    ACCEPT = "ACCEPT"
    """It is done."""
    RELEASE = "RELEASE"
    """It is to be delivered again."""
    REJECT = "REJECT"
    """It is never to be delivered again."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Where an acknowledged record stands. ``offset`` is -1 where nobody said (acks=0)."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Membership:
    """A consumer's group metadata at one moment; ``token`` is the client's own. ``member``: it is in the group."""

    token: Any
    member: bool


Position = dict[int, int]
"""``{partition: offset of the next record}``."""


class Pending(Protocol):
    """A record under way."""

    def wait(self, within_s: float) -> Stored | None:
        """Wait for the outcome; None: acknowledged by a broker that names no place.

        Raises:
            ClientError: it was refused, or nobody knows what became of it.
        """


class Producer(Protocol):
    """A producer. Everything raises :class:`ClientError`."""

    def init_transactions(self) -> None:
        """Fence others with this transactional id, and end what they left open."""

    def begin(self) -> None:
        """Begin a transaction."""

    def commit(self) -> None:
        """Commit it: true only where the broker said so."""

    def abort(self) -> None:
        """Abort it."""

    def send_offsets(self, topic: str, positions: Position, membership: Membership) -> None:
        """Put a group's positions into the transaction."""

    def send(self, topic: str, value: bytes, key: bytes | None, headers: Sequence[tuple[str, bytes]]) -> Pending:
        """Hand a record to the client."""

    def close(self, within_s: float) -> None:
        """Give it up; ``within_s`` is for what is still under way."""


class Consumer(Protocol):
    """A consumer of the stage's group. Everything raises :class:`ClientError`."""

    def subscribe(self, topic: str, assigned: Callable[[list[int]], Mapping[int, int]]) -> None:
        """Join the group. ``assigned`` is told its partitions (sorted, at least one), and says where to go on."""

    def poll(self, most: int, within_s: float) -> list[Delivered]:
        """Return what has arrived, at most ``most`` records; nothing while no broker can be reached."""

    def commit(self, topic: str, positions: Position, within_s: float) -> None:
        """Save positions and wait for the answer."""

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Go on from there."""

    def assignment(self) -> frozenset[int]:
        """Return the partitions that are this consumer's own now."""

    def position(self, topic: str, partition: int) -> int | None:
        """Return where it goes on in a partition of its own, if it keeps that when a group gives out its partitions anew."""

    def membership(self) -> Membership:
        """Return the group metadata of now."""


class Sharer(Protocol):
    """A reader of a share group. Everything raises :class:`ClientError`."""

    def subscribe(self, topic: str) -> None:
        """Join the group."""

    def poll(self, within_s: float) -> list[Delivered]:
        """Return what has arrived, and is this reader's own for a while."""

    def answer(self, message: Delivered, answer: Answer) -> None:
        """Note what is to be said of a record; it is said by the next commit, or poll."""

    def commit(self, within_s: float) -> None:
        """Say it, and wait for what the brokers say to that."""


class Sharing(Protocol):
    """An adapter module whose client knows share groups."""

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
        """Return the last value of a topic of one partition that a read-committed reader sees."""
