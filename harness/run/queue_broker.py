"""A broker of queues, as its cells ask it: what it holds, and how many messages it counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from harness.run.sinks import SinkPart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.model.places import Removal, Waiting
    from harness.model.scenario import Role
    from harness.runtimes.interface import Exit, Node, Runtime
    from harness.wire.control import WireControl
    from harness.wire.messages import Route


UNANSWERED = (OSError,)
"""The exceptions that mean that a broker does not answer."""
BROKER: Final = "broker-1"
"""The name of the one broker of a deployment."""


@dataclass(frozen=True, slots=True)
class Message:
    """One copy that a queue has had. ``place``: its position in the broker's journal; ``name``: the
    broker's name for it.
    """

    place: str
    name: str
    value: bytes
    attempt: str | None = None
    waiting: Waiting | None = None
    """READY, OPEN or PREPARED; null: it waits for nothing. The journal does not say whether a
    consumer has the copy.
    """
    visible: bool = True
    removed: Removal | None = None
    """Why the broker removed the copy; null: it has not."""
    moved: str | None = None
    """The place to which the broker moved the copy; null: it has not."""
    why: Removal | None = None
    """Why the broker moved the copy, if it says so."""
    origin: str | None = None
    """The place of the copy from which this one was made, if it names one."""
    parts: int = 1
    """In how many parts the broker keeps the copy."""
    counts: int = 1
    """As how many messages the broker counts the copy while it waits: a message in parts counts as
    its waiting parts.
    """
    whole: bool = True
    """False for a waiting part of a message that will never be complete."""


@dataclass(frozen=True, slots=True)
class Count:
    """How many messages a broker itself counts in a queue: ready, with a consumer, scheduled."""

    ready: int = 0
    in_flight: int = 0
    scheduled: int = 0


class Results(SinkPart, Protocol):
    """The place where the results of a cell go."""

    @property
    def name(self) -> str:
        """The queue to which the results are sent; empty: they go to a database."""

    @property
    def there(self) -> str:
        """The database's address for the programs; empty: there is none."""

    def trouble(self) -> str | None:
        """Say why the results may still change, or return ``None``."""


class QueueBroker(Protocol):
    """A running broker behind its wire. Its methods may raise OSError while the broker is down."""

    @property
    def runtime(self) -> Runtime:
        """The runtime in which stages are started."""

    @property
    def wire(self) -> WireControl:
        """The wire's control."""

    def own_routes(self) -> Sequence[Route]:
        """Return the routes by which the broker connects to itself. They belong to a cell that uses
        the broker alone.
        """

    def address(self, role: Role) -> str:
        """Return the address at which programs of a role connect: the wire's."""

    def queue(self, name: str) -> str:
        """Return a queue's name as clients write it."""

    def dead_letters(self, queue: str) -> str:
        """Return the name of the queue for its dead letters, as clients write it."""

    def messages(self, queue: str) -> Sequence[Message]:
        """Return every copy that a queue has had, read from the journal at rest."""

    def called(self, name: str) -> str | None:
        """Return the journal's name of a message, by the name that clients are told; ``None``: what
        clients are told names no copy. Then a result has no place.
        """

    def count(self, queue: str) -> Count:
        """Return how many messages wait in a queue, as the broker itself says."""

    def process(self) -> Node:
        """Return the broker's process, dead or alive."""

    def kill(self) -> Exit:
        """Send SIGKILL to the broker; the wire refuses connections until it is back."""

    def restart(self) -> None:
        """Start the broker again on the same data, wait until it answers, let the wire connect
        again.
        """


@runtime_checkable
class Creates(Protocol):
    """A broker whose queues do not exist before somebody has made them."""

    def create(self, queue: str, pipeline: str) -> None:
        """Make a queue, unless it exists. ``pipeline``: the name of the pipeline that it belongs
        to, if that says how it is made; empty: a declared one.

        Raises:
            OSError: the broker does not answer, or refuses.
        """
