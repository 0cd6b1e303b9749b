"""The interface between a stage and the client of a queue: messages are acknowledged one by one,
and there are no positions.

Its producer is that of :mod:`.interface`. The broker reports no place, so ``wait`` returns
``None``. Every exception of a client becomes a
:class:`~harness.stages.clients.interface.ClientError`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

from harness.stages.clients.interface import ClientError

if TYPE_CHECKING:
    from harness.stages.clients.interface import Membership, Position, Producer
    from harness.stages.stage import Stage


DUPLICATE_ID: Final = "_AMQ_DUPL_ID"
"""The message property by whose value Artemis drops duplicates. Classic ignores it."""


@dataclass(frozen=True, slots=True)
class Received:
    """A message as it was given to a consumer."""

    name: str
    """The broker's name for this copy. Each time the record is sent, the copy gets another name."""
    value: bytes
    redelivered: bool
    """Whether the broker says that the message was delivered before."""
    token: Any
    """The client's own token, with which the message is acknowledged on its connection."""
    key: bytes | None = None


class GoneError(ClientError):
    """The connection is lost or could not be made. The outcome of requests that were under way is
    unknown.
    """

    def __init__(self, said: object) -> None:
        super().__init__("Disconnected", said)


class Sent:
    """A message whose outcome is known, or not requested. Implements
    :class:`~harness.stages.clients.interface.Pending`.
    """

    def wait(self, within_s: float) -> None:
        """Return at once: ``send`` has waited for the receipt already, because one message is under
        way at a time.
        """


class WithoutPositions:
    """The part of a producer whose broker keeps no positions: they are in no transaction."""

    def send_offsets(self, topic: str, positions: Position, membership: Membership) -> NoReturn:
        """Raise NotImplementedError: there are no positions."""
        raise NotImplementedError("this broker keeps no positions")


class WithoutTransactions(WithoutPositions):
    """The part of a producer whose broker has no transactions either."""

    def init_transactions(self) -> NoReturn:
        """Raise NotImplementedError: there are no transactions."""
        raise NotImplementedError("this broker has no transactions")

    begin = commit = abort = init_transactions


class QueueConsumer(Protocol):
    """A consumer of one queue. After a lost connection, the next call that needs one reconnects."""

    def subscribe(self, queue: str) -> None:
        """Subscribe to a queue, and return when the broker has confirmed the subscription.

        Raises:
            ClientError: the broker refuses.
        """

    def receive(self, within_s: float) -> Received | None:
        """Return the next message; ``None`` if none comes within the time.

        Raises:
            ClientError: the broker could not be reached for too long.
        """

    def acknowledge(self, given: Received) -> None:
        """Acknowledge a message, and wait for the broker's answer. Does nothing if the broker needs
        no acknowledgement.

        Raises:
            ClientError: the outcome is unknown; the message may be delivered again.
        """


class Refuses(Protocol):
    """A consumer that can refuse a message whose work has failed."""

    def refuse(self, given: Received, *, for_good: bool) -> None:
        """Refuse a message. The broker delivers it again or, if ``for_good``, never again.

        Raises:
            ClientError: the outcome is unknown.
        """


class TwoPhases(Protocol):
    """A producer with two-phase commits. A prepared transaction stays until a program ends it.

    ``init_transactions`` ends the transactions that an earlier program left prepared: it commits
    those that the source's cursor is past, because they were decided, and rolls back the others.
    """

    def prepare(self) -> None:
        """Let the broker prepare the transaction.

        Raises:
            ClientError: the broker refuses, or the outcome is unknown.
        """


class QueueClient(Protocol):
    """An adapter module."""

    def make_producer(self, stage: Stage, *, transactional_id: str) -> Producer:
        """Return a producer with the stage's settings. Its first send connects it."""

    def make_consumer(self, stage: Stage) -> QueueConsumer:
        """Return a consumer with the stage's settings, not subscribed yet."""
