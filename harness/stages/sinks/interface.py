"""What a database sink is: results, absorbed copies, processed ids and positions, written in transactions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Copy:
    """One copy of a record in a log; or in a queue, whose broker has a ``name`` for it, and no numbers."""

    partition: int = -1
    epoch: int = -1
    offset: int = -1
    name: str | None = None


def place_of(copy: Copy) -> tuple[int, int, int, str | None]:
    """Return what of a copy stands in a row."""
    return copy.partition, copy.epoch, copy.offset, copy.name


class SinkLostError(Exception):
    """The connection to the database is gone, and with it the transaction that was open.

    ``in_doubt``: COMMIT had been asked for and was not answered, so nobody on this side knows whether it happened.
    """

    def __init__(self, because: str, *, in_doubt: bool) -> None:
        super().__init__(because)
        self.in_doubt = in_doubt


class Sink(Protocol):
    """A connection to a sink. Between ``begin`` and ``commit`` everything is one transaction, which nobody else sees before.

    A writer that dies leaves whole transactions behind. Whatever is asked of one that is a server may raise
    :class:`SinkLostError`; ``reconnect`` then gives it a new connection.
    """

    def begin(self) -> None:
        """Begin a transaction."""

    def commit(self) -> None:
        """Make it durable."""

    def reconnect(self) -> None:
        """Take a new connection, as soon as there is one to be had (bounded). What was open is rolled back."""

    def record(self, value: bytes, key: str | None, copy: Copy) -> None:
        """Write one result."""

    def forget_key(self, key: str) -> None:
        """Remove every result of a key."""

    def absorb(self, record: str, copy: Copy) -> bool:
        """Remember a processed id; true where it was processed before (the copy is then counted as absorbed)."""

    def absorb_batch(self, query: str, batch: int) -> bool:
        """Remember a batch of a query; true where it was recorded before."""

    def absorb_copy(self, record: str, copy: Copy) -> None:
        """Count a copy as absorbed."""

    def save_position(self, partition: int, offset: int) -> None:
        """Save the next offset to be read of a partition."""

    def positions(self) -> dict[int, int]:
        """Return the next offset to be read, per partition."""

    def results(self) -> Iterator[tuple[int, bytes, str | None, Copy]]:
        """Yield ``(order, value, key, copy)`` of every result in the order of recording."""

    def absorbed(self) -> Iterator[tuple[str, Copy]]:
        """Yield ``(id, copy)`` of every absorbed copy."""

    def size(self) -> tuple[int, int]:
        """Return the number of results and of absorbed copies: changes while the sink is not quiet."""

    def unsettled(self) -> int:
        """Return how many transactions of others are open or prepared: what they wrote may yet appear."""

    def close(self) -> None:
        """Close the connection; what is open is rolled back. Safe to call twice."""
