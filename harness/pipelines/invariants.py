"""What must hold of the results beside their ids, as a sum of accounts that is always zero."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from harness.pipelines.refusing import DeclarationError, check_reads


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant:
    """One value that must hold when everything is at rest, with every claim, and without a fault, too."""

    equals: str
    """What the value must be, a number or text."""
    query: str = ""
    """A query that is asked of the output's SQLite file."""
    command: tuple[str, ...] = ()
    """A command that prints the value."""

    def __post_init__(self) -> None:
        if bool(self.query) == bool(self.command):
            raise DeclarationError("invariant: write query (of the output's SQLite file), or command (which prints the value)")
        check_reads("invariant: query", self.query)

    def check(self, *, sqlite: bool) -> None:
        """Raise :class:`DeclarationError` where nobody could be asked. ``sqlite``: the output is a SQLite file."""
        if self.query and not sqlite:
            raise DeclarationError("invariant: query is asked of an output of kind sqlite; of another, write a command")

    @property
    def told(self) -> str:
        """What is asked, as text."""
        return self.query or " ".join(self.command)

    def holds(self, found: str) -> bool:
        """Say whether a value is the one that must be.

        >>> Invariant(equals="0", query="SELECT 0.0").holds("0.0"), Invariant(equals="0", query="SELECT 1").holds("1")
        (True, False)
        """
        try:
            return found.strip() == self.equals.strip() or Decimal(found) == Decimal(self.equals)
        except InvalidOperation:
            return False
