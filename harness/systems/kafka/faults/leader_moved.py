"""LeaderMoved: an administrator makes another replica the leader. No process dies."""

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
    """Hold the frame at ``at``, give the target's partition another leader, then release the frame
    to the old leader.
    """

    id: ClassVar[str] = "leader-moved"

    at: OnWire
    preferred: bool = False
    """Another replica is the preferred leader from the beginning, and the fault only elects it."""
    stalled: bool = False
    """From the target on no follower gets a copy until another replica leads."""

    def evidence(self) -> Evidence:
        """Return what the history must show as evidence of the fault.

        The rule was hit at the target, no process died, and the partition has a new leader.
        """
        return Evidence(
            "rule",
            at_target=not self.at.offset,
            proofs=(LeadershipMoved(), *((PreferredElected(),) if self.preferred else ())),
        )

    def needs(self) -> tuple[type, ...]:
        """Return the abilities that it needs: to move a leader, and to stall followers if
        ``stalled``.
        """
        return (Leadership, Replication) if self.stalled else (Leadership,)

    def arm(self, controls: Controls) -> None:
        """Arm the rule; before that, make another replica the preferred leader, or stall the
        followers, as the settings say.
        """
        if self.preferred:
            controls.ability(Leadership).prefer_another()
        if self.stalled:
            controls.ability(Replication).stall()
        controls.arm(self.at, rule_at(self.at, Action.HOLD, freeze=FreezeScope.CLIENT))
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Move the leader, then release the frame."""
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
