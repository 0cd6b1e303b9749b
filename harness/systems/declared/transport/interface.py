"""The interface of what stands between the stages of a declared pipeline: a log, or a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.run.drain import Check


class Transport(Protocol):
    """A log whose readers save positions, or a queue that deletes what is acknowledged."""

    unanswered: tuple[type[Exception], ...]
    """The exceptions that mean: the broker does not answer at the moment."""

    @property
    def tail(self) -> bool:
        """Whether the last records are in the output although no position will be
        saved past them.
        """

    def begin(self) -> None:
        """Look for others who read here already, before the first stage starts.

        Raises:
            CellFailure: there are some. They would take records, and the cell would prove nothing.
        """

    def checks(self) -> Sequence[Check]:
        """Return the conditions that must hold when everything is at rest, in the order in which
        they are checked.
        """

    def settled(self) -> bool:
        """Say whether the first reader has read everything and saved its position, or acknowledged
        everything.
        """

    def refused(self) -> str | None:
        """Say which record the broker refuses, and would refuse in every cell; ``None`` if there is
        no such record.
        """

    def members(self) -> int:
        """Return how many members the readers' groups have now."""

    def observe(self) -> None:
        """Write what the log or queue holds, and what the other authorities of the cell say."""
