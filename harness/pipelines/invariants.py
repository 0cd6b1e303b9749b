"""Invariants: conditions on the results besides their ids, such as a sum of all accounts that is
always zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from harness.pipelines.refusing import DeclarationError, check_reads


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant:
    """A value that must be found when everything is at rest, for every claim, with and without a
    fault.
    """

    equals: str
    """The required value, a number or text."""
    query: str = ""
    """A query of the output's SQLite file that returns the value."""
    command: tuple[str, ...] = ()
    """A command that prints the value."""

    def __post_init__(self) -> None:
        if bool(self.query) == bool(self.command):
            raise DeclarationError(
                "invariant: write query (of the output's SQLite file), or command (which prints "
                "the value)"
            )
        check_reads("invariant: query", self.query)

    def check(self, *, sqlite: bool) -> None:
        """Raise :class:`DeclarationError` if there is no file to query. ``sqlite``: whether the
        output is a SQLite file.
        """
        if self.query and not sqlite:
            raise DeclarationError(
                "invariant: query needs an output of kind sqlite; for another kind, write a command"
            )

    @property
    def told(self) -> str:
        """The query or command, as text."""
        return self.query or " ".join(self.command)

    def holds(self, found: str) -> bool:
        """Return whether the value that was found is the required one.

        >>> none = Invariant(equals="0", query="SELECT 0.0")
        >>> none.holds("0.0"), none.holds("1")
        (True, False)
        """
        try:
            return found.strip() == self.equals.strip() or Decimal(found) == Decimal(self.equals)
        except InvalidOperation:
            return False
