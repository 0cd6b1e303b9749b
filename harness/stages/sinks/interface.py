"""The interface of a database sink: results, absorbed copies, processed ids and positions, written
in transactions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Copy:
    """One copy of a record: in a log by its numbers; in a queue by the broker's ``name`` for it."""

    partition: int = -1
    epoch: int = -1
    offset: int = -1
    name: str | None = None


def place_of(copy: Copy) -> tuple[int, int, int, str | None]:
    """Return the columns of a copy in a row."""
    return copy.partition, copy.epoch, copy.offset, copy.name


class SinkLostError(Exception):
    """The connection to the database is lost, and with it the open transaction.

    ``in_doubt``: COMMIT was sent and not answered, so the program cannot know whether it happened.
    """

    def __init__(self, because: str, *, in_doubt: bool) -> None:
        super().__init__(because)
        self.in_doubt = in_doubt


class Results(Protocol):
    """A connection to what keeps results, such as a table format. One that has no transaction over
    results and positions is this alone.
    """

    def record(self, value: bytes, key: str | None, copy: Copy) -> None:
        """Write one result."""

    def forget_key(self, key: str) -> None:
        """Remove every result of a key."""

    def results(self) -> Iterator[tuple[int, bytes, str | None, Copy]]:
        """Yield ``(order, value, key, copy)`` of every result in the order of recording."""

    def size(self) -> tuple[int, int]:
        """Return the numbers of results and of absorbed copies. They change as long as the sink is
        not quiet.
        """

    def close(self) -> None:
        """Close the connection; an open transaction is rolled back. Safe to call twice."""


class Transactional(Protocol):
    """A connection whose writes between ``begin`` and ``commit`` are one transaction, together with
    processed ids and positions. Others see it after its commit.

    A writer that dies leaves whole transactions behind. If the sink is a server, every method may
    raise :class:`SinkLostError`; ``reconnect`` then makes a new connection.
    """

    def begin(self) -> None:
        """Begin a transaction."""

    def commit(self) -> None:
        """Commit the transaction."""

    def reconnect(self) -> None:
        """Make a new connection as soon as the server takes one (bounded). The open transaction is
        rolled back.
        """

    def unsettled(self) -> int:
        """Return how many transactions of other connections are open or prepared: their results may
        still appear.
        """

    def absorb(self, record: str, copy: Copy) -> bool:
        """Remember a processed id; return true if it was processed before (the copy is then counted
        as absorbed).
        """

    def absorb_batch(self, query: str, batch: int) -> bool:
        """Remember a batch of a query; return true if it was recorded before."""

    def absorb_copy(self, record: str, copy: Copy) -> None:
        """Count a copy as absorbed."""

    def absorbed(self) -> Iterator[tuple[str, Copy]]:
        """Yield ``(id, copy)`` of every absorbed copy."""

    def save_position(self, partition: int, offset: int) -> None:
        """Save the next offset to be read of a partition."""

    def positions(self) -> dict[int, int]:
        """Return the next offset to be read, per partition."""


class Sink(Results, Transactional, Protocol):
    """A connection to a sink: results, and everything about them, in one transaction."""
