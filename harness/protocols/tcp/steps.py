"""The one step that a connection has whose protocol nobody reads."""

from __future__ import annotations

from typing import Final

from harness.wire.protocol import Step
from harness.wire.rules import Direction, StepName


class Exchange(StepName):
    """A turn: all bytes of one direction until bytes of the other direction come."""

    TURN = "Turn"

    def selects(self, direction: Direction) -> frozenset[str]:
        """Return no field: nobody knows what a turn is about."""
        return STEPS[str(self), direction].selects


STEPS: Final = {
    (str(Exchange.TURN), way): Step(durable=way is Direction.REQUEST) for way in Direction
}
