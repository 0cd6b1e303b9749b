"""What stands between the stages of a declared pipeline: who can say how far it has got, and what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.model.scenario import Role
    from harness.run.drain import Check


class Between(Protocol):
    """A log whose readers save positions, or a queue that forgets what is acknowledged."""

    unanswered: tuple[type[Exception], ...]
    """What is raised where it cannot be asked."""

    @property
    def tail(self) -> bool:
        """Whether the last records are recorded, and nobody will say so here."""

    def checks(self) -> Sequence[Check]:
        """Return what of it must hold when everything is at rest, in order."""

    def settled(self) -> bool:
        """Say whether the first reader has been given everything that is in it, and has said so."""

    def refused(self) -> str | None:
        """Say which record its broker refuses, and will refuse in every cell, or ``None``."""

    def expel(self, role: Role) -> None:
        """Let its broker know that a stage of this role is dead, where it would take long to find out."""

    def members(self) -> int:
        """Return how many members the groups of its readers have now."""

    def observe(self) -> None:
        """Write what it holds, and all else that the authorities of the cell say."""
