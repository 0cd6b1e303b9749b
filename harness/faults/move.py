"""Move: another replica is made the leader, as an administrator does it; nobody dies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.core.scenario import Evidence
from harness.faults.firing import await_fault, rule_at
from harness.proofs.leadership import LeaderMoved, PreferredElected
from harness.wire.rules import Action, FreezeScope, How

if TYPE_CHECKING:
    from harness.bench import Bench, OnWire


@dataclass(frozen=True, slots=True)
class Move:
    """At ``at`` the frame is held, the target's partition gets another leader, and the frame goes on to the old one."""

    id: ClassVar[str] = "move"

    at: OnWire
    preferred: bool = False
    """Another replica than the leader is the preferred one from the beginning; all that is done is to elect it."""
    stalled: bool = False
    """From the target on no follower gets a copy, until another replica leads."""

    def evidence(self) -> Evidence:
        """The rule was hit at the target, nobody died, and the partition has another leader than before."""
        return Evidence(
            "rule", at_target=not self.at.offset, proofs=(LeaderMoved(), *((PreferredElected(),) if self.preferred else ()))
        )

    def arm(self, bench: Bench) -> None:
        """Arm the rule; before that, let another replica than the leader be the preferred one."""
        if self.preferred:
            bench.prefer_another()
        if self.stalled:
            bench.stall_replication()
        bench.arm(self.at, rule_at(self.at, Action.HOLD, freeze=FreezeScope.CLIENT))
        bench.say("armed")

    def inject(self, bench: Bench) -> None:
        """Move the leader, let the frame go on."""
        fired = await_fault(bench, self.at)
        if self.preferred:
            bench.elect_preferred()
        else:
            bench.move_leader()
        bench.say("applied", node=fired.node)
        bench.resolve(fired.hold, How.RELEASE)
        if self.stalled:
            bench.disarm()
        bench.say("healed")
