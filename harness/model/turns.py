"""Several records of one run that a fault strikes, one after the other."""

from __future__ import annotations

from typing import Protocol


class NextTarget(Protocol):
    """Aim at another record of the load."""

    def await_rest(self) -> None:
        """Wait until everything that was offered so far has been worked on.

        Raises:
            NotFiredError: it never was.
        """

    def aim(self, number: int) -> str:
        """Disarm what was armed for the record before, make this one (from 0) the target, and
        return its id.
        """

    def go_on(self) -> None:
        """Offer the records before the new target, and that one."""
