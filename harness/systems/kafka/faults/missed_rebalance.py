"""MissedRebalance: a member's request to join its group again is late, and the group goes on without it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import Membership, Rebalance, SavedPositions
from harness.faults.triggers import await_fault, rule_at
from harness.model.scenario import Evidence
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Action, Direction, FreezeScope, How

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire


@dataclass(frozen=True, slots=True)
class MissedRebalance:
    """The answer ``at``, to a member of a group, is held; a newcomer makes the group gather again.

    The request with which the member would join is held until the group has put it out, and the others have done all the
    work there is. Then its request arrives (the answer never does), and it is told that it must join anew.
    """

    id: ClassVar[str] = "missed-rebalance"

    at: OnWire
    by: Api = Api.JOIN_GROUP
    """With which request the member would join: of a group of the new protocol, its next heartbeat."""

    def __post_init__(self) -> None:
        if self.at.direction is not Direction.RESPONSE:
            raise ValueError("a member that waits for an answer goes on asking its group; one whose request is held may not")

    def evidence(self) -> Evidence:
        """Return what the history must show: the rule was hit at the target; nobody died."""
        return Evidence("rule", at_target=not self.at.offset)

    def needs(self) -> tuple[type, ...]:
        """Return the abilities that it needs: a group that gathers anew, and reads on from what it has saved."""
        return (Membership, Rebalance, SavedPositions)

    def arm(self, controls: Controls) -> None:
        """Arm the first rule."""
        controls.arm(self.at, rule_at(self.at, Action.HOLD))
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Hold both, let the others finish, let the member ask to join."""
        fired = await_fault(controls, self.at)
        joins = replace(self.at, api=self.by, direction=Direction.REQUEST, occurrence=1, since=self.at)
        # one that is not answered may ask over another connection
        freeze = FreezeScope.CLIENT if self.by is Api.CONSUMER_GROUP_HEARTBEAT else None
        controls.arm(joins, rule_at(joins, Action.HOLD, "joins", freeze=freeze))
        controls.ability(Rebalance).join(self.at.role)
        held = controls.await_fired(joins)
        controls.say("applied", node=fired.node)
        controls.ability(Membership).await_expired(self.at.role)
        controls.await_exhausted()
        controls.settle()
        controls.resolve(fired.hold, How.DISCARD)
        controls.resolve(held.hold, How.RELEASE)
        reader = controls.target(self.at.role, fired.node)
        controls.ability(SavedPositions).await_reading(reader, anew=True)  # a position that goes back does so now
        controls.say("healed")
