"""MissedRebalance: a member's request to join its group again is late, and the group goes on
without it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import Membership, Rebalance, SavedPositions
from harness.faults.triggers import AtTrigger, await_fault, rule_at
from harness.model.scenario import Evidence
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Action, Direction, FreezeScope, How

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire


@dataclass(frozen=True, slots=True)
class MissedRebalance(AtTrigger):
    """Hold an answer to a member at ``at``, and let a new member start a rebalance that the first
    member misses.

    The member's request to join is held until the group has removed the member and the others have
    done all the work. Then the request arrives, and the member is told that it must join anew. The
    held answer never arrives.
    """

    id: ClassVar[str] = "missed-rebalance"
    abilities: ClassVar[tuple[type, ...]] = (Membership, Rebalance, SavedPositions)

    at: OnWire
    by: Api = Api.JOIN_GROUP
    """The request with which a member joins; in the new group protocol it is a heartbeat."""

    def __post_init__(self) -> None:
        if self.at.direction is not Direction.RESPONSE:
            raise ValueError(
                "at must be a response: a member with a held request may stop talking to its group"
            )

    def evidence(self) -> Evidence:
        """Return what the history must show: the rule was hit at the target, and no
        process died.
        """
        return Evidence("rule", at_target=not self.at.offset)

    def inject(self, controls: Controls) -> None:
        """Hold the answer and the request to join, let the others finish, then release
        the request.
        """
        fired = await_fault(controls, self.at)
        joins = replace(
            self.at, api=self.by, direction=Direction.REQUEST, occurrence=1, since=self.at
        )
        # a member without an answer may ask again over another connection
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
        controls.ability(SavedPositions).await_reading(
            reader, anew=True
        )  # if its position goes back, it does so now
        controls.say("healed")
