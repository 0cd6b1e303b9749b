"""StaleMember: a process is stopped while another does its work; then it goes on with it, and is a member again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import Membership
from harness.controls import OnWire
from harness.faults.triggers import arm_stop, rule_at, stop_at
from harness.model.scenario import Evidence
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Action, Direction, How

if TYPE_CHECKING:
    from harness.controls import Controls


@dataclass(frozen=True, slots=True)
class StaleMember:
    """At ``at`` the process is stopped until its group has put it out, and another has done all the work there is.

    Its own request waits until it was told that it was put out. The source waits at ``until`` while that transaction is under
    way, so that there is work left that moves positions on afterwards.
    """

    id: ClassVar[str] = "stale-member"

    at: OnWire
    until: OnWire

    def evidence(self) -> Evidence:
        """Return what the history must show: the rule was hit at the target, and the process was stopped."""
        return Evidence("rule", paused=(self.at.role,))

    def needs(self) -> tuple[type, ...]:
        """Return the abilities that it needs: a group that puts members out."""
        return (Membership,)

    def arm(self, controls: Controls) -> None:
        """Arm both rules; only one request is held: the process must hear of its group while it waits for the answer."""
        arm_stop(controls, self.at, freeze=None)
        controls.arm(self.until, rule_at(self.until, Action.HOLD, "until"))
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Stop it, let another do its work, wake it, let its transaction end, let the source go on."""
        sleeper, hold = stop_at(controls, self.at)
        controls.ability(Membership).await_expired(self.at.role)
        reached = controls.await_fired(self.until)
        controls.settle()
        sleeper.resume()
        controls.ability(Membership).await_put_out(sleeper)
        ends = OnWire(self.at.role, Api.END_TXN, Direction.RESPONSE, since=self.at)
        controls.arm(ends, rule_at(ends, Action.HOLD, "ends"))
        if not controls.resolve(hold, How.RELEASE):  # never healed: its client did not wait, and went on by itself
            return
        ended = controls.await_fired(ends)
        if controls.resolve(ended.hold, How.RELEASE) and controls.resolve(reached.hold, How.RELEASE):
            controls.say("healed")
