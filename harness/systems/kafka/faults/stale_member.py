"""StaleMember: a process is paused while another does its work, then it goes on and joins the group
again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import Membership
from harness.controls import OnWire
from harness.faults.triggers import AtTrigger, rule_at, stop_at
from harness.model.scenario import Evidence
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Action, Direction, How

if TYPE_CHECKING:
    from harness.controls import Controls


@dataclass(frozen=True, slots=True)
class StaleMember(AtTrigger):
    """Pause the process at ``at`` until its group has removed it and another process has done all
    the work.

    The process's own request is held until the process was told that it was removed. The source
    waits at ``until`` while that transaction is open, so that there is work left afterwards that
    moves positions on.
    """

    id: ClassVar[str] = "stale-member"
    abilities: ClassVar[tuple[type, ...]] = (Membership,)

    at: OnWire
    until: OnWire

    def evidence(self) -> Evidence:
        """Return what the history must show: the rule was hit at the target, and the process was
        paused.
        """
        return Evidence("rule", paused=(self.at.role,))

    def arm(self, controls: Controls) -> None:
        """Arm both rules. Only one request is held, because the process must hear from its group
        while it waits.
        """
        controls.arm(self.at, self._rule())
        controls.arm(self.until, rule_at(self.until, Action.HOLD, "until"))
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Pause the process, let another do its work, resume it, let its transaction end, then let
        the source go on.
        """
        sleeper, hold = stop_at(controls, self.at)
        controls.ability(Membership).await_expired(self.at.role)
        reached = controls.await_fired(self.until)
        controls.settle()
        sleeper.resume()
        controls.ability(Membership).await_put_out(sleeper)
        ends = OnWire(self.at.role, Api.END_TXN, Direction.RESPONSE, since=self.at)
        controls.arm(ends, rule_at(ends, Action.HOLD, "ends"))
        if not controls.resolve(
            hold, How.RELEASE
        ):  # the client did not wait and went on by itself: the fault is never healed
            return
        ended = controls.await_fired(ends)
        if controls.resolve(ended.hold, How.RELEASE) and controls.resolve(
            reached.hold, How.RELEASE
        ):
            controls.say("healed")
