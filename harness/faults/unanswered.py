"""Unanswered: a stage is killed, and what it asks first when it starts again is not answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.controls import OnWire
from harness.faults.triggers import await_fault, rule_at
from harness.model.scenario import Evidence
from harness.wire.rules import Action, Direction, FreezeScope, How, StepName

if TYPE_CHECKING:
    from harness.controls import Controls


@dataclass(frozen=True, slots=True)
class Unanswered:
    """At ``at`` the process is killed. It starts again, and the first answer to ``asks`` is lost and the connection cut.

    What is asked then is where to go on, or as whom. A client that takes no answer for an answer goes on elsewhere.
    """

    id: ClassVar[str] = "unanswered"

    at: OnWire
    asks: StepName

    def evidence(self) -> Evidence:
        """The rule was hit at the target, and the process died by SIGKILL; the fault heals only when the answer was lost."""
        return Evidence("rule", killed=(self.at.role,), at_target=not self.at.offset, approached=True)

    def arm(self, controls: Controls) -> None:
        """Arm the rule that the process dies at."""
        controls.arm(self.at, rule_at(self.at, Action.HOLD, freeze=FreezeScope.CLIENT))
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Kill it, arm the loss of the answer, start it again, wait until the answer was lost."""
        fired = await_fault(controls, self.at)
        victim = controls.target(self.at.role, fired.node)
        victim.kill()
        controls.say("applied", node=victim.name)
        controls.resolve(fired.hold, How.DISCARD)
        answer = OnWire(self.at.role, self.asks, Direction.RESPONSE, since=self.at)
        controls.arm(answer, rule_at(answer, Action.DROP, "answer"))
        victim.restart()
        controls.await_fired(answer)
        controls.say("healed")
