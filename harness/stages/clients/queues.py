"""What a stage needs of the client of a queue: messages are acknowledged one by one, and nobody has a position.

Its producer is that of :mod:`.interface`, whose broker names no place: ``wait`` returns nothing. Whatever a client complains of
becomes a :class:`~harness.stages.clients.interface.ClientError`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from harness.stages.clients.interface import Producer
    from harness.stages.stage import Stage


DUPLICATE_ID: Final = "_AMQ_DUPL_ID"
"""The property with the id that Artemis takes no second time; to Classic it is one like others."""


@dataclass(frozen=True, slots=True)
class Given:
    """A message as it was given to a consumer."""

    name: str
    """What the broker calls this copy: another one each time that the record is sent."""
    value: bytes
    redelivered: bool
    """Whether the broker says that somebody was given it before."""
    token: Any
    """The client's own: by what, and on which connection, it is acknowledged."""
    key: bytes | None = None


class QueueConsumer(Protocol):
    """A consumer of one queue. A connection that is lost is made again by the next call that needs one."""

    def subscribe(self, queue: str) -> None:
        """Return when the broker has said that messages of the queue will come.

        Raises:
            ClientError: the broker refuses.
        """

    def receive(self, within_s: float) -> Given | None:
        """Return the next message; none where none has come.

        Raises:
            ClientError: the broker has been away for long.
        """

    def acknowledge(self, given: Given) -> None:
        """Acknowledge a message, and wait for the broker's answer. Does nothing where the broker needs no acknowledgement.

        Raises:
            ClientError: the outcome is not known; the message may come again.
        """


class Refuses(Protocol):
    """An ability of a consumer: to refuse a message whose work has failed."""

    def refuse(self, given: Given, *, for_good: bool) -> None:
        """Say that it is not done: it is to come again, or, ``for_good``, never.

        Raises:
            ClientError: the outcome is not known.
        """


class TwoPhases(Protocol):
    """An ability of a producer: to have a transaction prepared, which then stays until somebody ends it.

    Its ``init_transactions`` ends what an earlier program has left: as decided, where the source's cursor is past it.
    """

    def prepare(self) -> None:
        """Let the broker prepare the transaction.

        Raises:
            ClientError: the broker refuses, or nobody knows.
        """


class QueueClient(Protocol):
    """An adapter module."""

    def make_producer(self, stage: Stage, *, transactional_id: str) -> Producer:
        """Return a producer with the stage's settings, whose connection is made by its first send."""

    def make_consumer(self, stage: Stage) -> QueueConsumer:
        """Return a consumer with the stage's settings, not subscribed yet."""
