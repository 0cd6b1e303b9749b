"""Absent: a member is asked to join its group again, its request is on its way for too long, and the group goes on without it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from harness.core.scenario import Evidence
from harness.faults.firing import await_fault, rule_at
from harness.wire.rules import Action, Api, Direction, How

if TYPE_CHECKING:
    from harness.bench import Bench, OnWire


@dataclass(frozen=True, slots=True)
class Absent:
    """The answer ``at``, to a member of a group, is held; a newcomer makes the group gather again.

    The request with which the member would join is held until the group has put it out, and the others have done all the
    work there is. Then its request arrives (the answer never does), and it is told that it must join anew.
    """

    id: ClassVar[str] = "absent"

    at: OnWire

    def __post_init__(self) -> None:
        if self.at.direction is not Direction.RESPONSE:
            raise ValueError("a member that waits for an answer goes on asking its group; one whose request is held may not")

    def evidence(self) -> Evidence:
        """The rule was hit at the target; nobody died."""
        return Evidence("rule", at_target=not self.at.offset)

    def arm(self, bench: Bench) -> None:
        """Arm the first rule."""
        bench.arm(self.at, rule_at(self.at, Action.HOLD))
        bench.say("armed")

    def inject(self, bench: Bench) -> None:
        """Hold both, let the others finish, let the member ask to join."""
        fired = await_fault(bench, self.at)
        joins = replace(self.at, api=Api.JOIN_GROUP, direction=Direction.REQUEST, occurrence=1, since=self.at)
        bench.arm(joins, rule_at(joins, Action.HOLD, "joins"))
        bench.join(self.at.role)
        held = bench.await_fired(joins)
        bench.say("applied", node=fired.node)
        bench.await_session_expired(self.at.role)
        bench.await_exhausted()
        bench.settle()
        bench.resolve(fired.hold, How.DISCARD)
        bench.resolve(held.hold, How.RELEASE)
        bench.await_reading(bench.target(self.at.role, fired.node), anew=True)  # a position that goes back does so now
        bench.say("healed")
