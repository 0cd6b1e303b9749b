"""The base of the steps of protocols that say in a table what a rule can do with each."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

from harness.wire.protocol import PLAIN
from harness.wire.rules import Direction, StepName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.wire.protocol import Step

    Table = Mapping[tuple[str, Direction], Step]


class TabledStep(StepName):
    """A step, with what its protocol's table says of it. A member is its name, or its name and the
    number that frames have for it.
    """

    number: int | None
    _table: ClassVar[Table]

    def __new__(cls, name: str, number: int | None = None) -> Self:
        """Make a step of this name."""
        made = str.__new__(cls, name)
        made._value_, made.number = name, number
        return made

    @classmethod
    def numbered(cls) -> dict[int, Self]:
        """Return the steps that have a number, by their numbers."""
        return {each.number: each for each in cls if each.number is not None}

    @classmethod
    def tabled(cls, table: Table) -> Table:
        """Set the table of the protocol, and return it. A frame that it does not name is plain."""
        cls._table = table
        return table

    def step(self, direction: Direction) -> Step:
        """Return the line of the table for frames of this direction."""
        return self._table.get((str(self), direction), PLAIN)

    def selects(self, direction: Direction) -> frozenset[str]:
        """Return the fields by which a rule can select a frame."""
        return self.step(direction).selects

    @property
    def errors(self) -> Mapping[str, bool]:
        """Return the errors by which a broker may refuse it, each with whether the request may be
        done all the same.
        """
        return self.step(Direction.REQUEST).errors

    def removable(self, direction: Direction) -> bool:
        """Return whether the wire may drop a frame without closing its connection."""
        return self.step(direction).removable
