"""The base of the steps of protocols that say in a table what a rule can do with each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.wire.rules import Direction, StepName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.wire.protocol import Step


class TabledStep(StepName):
    """A step, with what its protocol's table says of it."""

    def step(self, direction: Direction) -> Step:
        """Return the line of the table for frames of this direction."""
        raise NotImplementedError

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
