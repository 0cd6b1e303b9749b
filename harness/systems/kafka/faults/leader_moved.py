"""LeaderMoved: another replica is made the leader, as an administrator does it; nobody dies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import Leadership, Replication
from harness.faults.triggers import await_fault, rule_at
from harness.model.scenario import Evidence
from harness.proofs.leadership import LeadershipMoved, PreferredElected
from harness.wire.rules import Action, FreezeScope, How

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire


@dataclass(frozen=True, slots=True)
class LeaderMoved:
    """At ``at`` the frame is held, the target's partition gets another leader, and the frame goes on to the old one."""

    id: ClassVar[str] = "leader-moved"

    at: OnWire
    preferred: bool = False
    """Another replica than the leader is the preferred one from the beginning; all that is done is to elect it."""
    stalled: bool = False
    """From the target on no follower gets a copy, until another replica leads."""

    def evidence(self) -> Evidence:
        """Return what the history must show.

        The rule was hit at the target, nobody died, and the partition has another leader than before.
        """
        return Evidence(
            "rule", at_target=not self.at.offset, proofs=(LeadershipMoved(), *((PreferredElected(),) if self.preferred else ()))
        )

    def needs(self) -> tuple[type, ...]:
        """Another replica leads."""
        return (Leadership, Replication) if self.stalled else (Leadership,)

    def arm(self, controls: Controls) -> None:
        """Arm the rule; before that, let another replica than the leader be the preferred one."""
        if self.preferred:
            controls.ability(Leadership).prefer_another()
        if self.stalled:
            controls.ability(Replication).stall()
        controls.arm(self.at, rule_at(self.at, Action.HOLD, freeze=FreezeScope.CLIENT))
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """LeaderMoved the leader, let the frame go on."""
        fired = await_fault(controls, self.at)
        if self.preferred:
            controls.ability(Leadership).elect_preferred()
        else:
            controls.ability(Leadership).move()
        controls.say("applied", node=fired.node)
        controls.resolve(fired.hold, How.RELEASE)
        if self.stalled:
            controls.disarm()
        controls.say("healed")
