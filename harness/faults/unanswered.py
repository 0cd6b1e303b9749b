"""Unanswered: a stage is killed, and what it asks first when it starts again is not answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.bench import OnWire
from harness.core.scenario import Evidence
from harness.faults.firing import await_fault, rule_at
from harness.wire.rules import Action, Api, Direction, FreezeScope, How

if TYPE_CHECKING:
    from harness.bench import Bench


@dataclass(frozen=True, slots=True)
class Unanswered:
    """At ``at`` the process is killed. It starts again, and the first answer to ``asks`` is lost and the connection cut.

    What is asked then is where to go on, or as whom. A client that takes no answer for an answer goes on elsewhere.
    """

    id: ClassVar[str] = "unanswered"

    at: OnWire
    asks: Api

    def evidence(self) -> Evidence:
        """The rule was hit at the target, and the process died by SIGKILL; the fault heals only when the answer was lost."""
        return Evidence("rule", killed=(self.at.role,), at_target=not self.at.offset, approached=True)

    def arm(self, bench: Bench) -> None:
        """Arm the rule that the process dies at."""
        bench.arm(self.at, rule_at(self.at, Action.HOLD, freeze=FreezeScope.CLIENT))
        bench.say("armed")

    def inject(self, bench: Bench) -> None:
        """Kill it, arm the loss of the answer, start it again, wait until the answer was lost."""
        fired = await_fault(bench, self.at)
        victim = bench.target(self.at.role, fired.node)
        victim.kill()
        bench.say("applied", node=victim.name)
        bench.resolve(fired.hold, How.DISCARD)
        answer = OnWire(self.at.role, self.asks, Direction.RESPONSE, since=self.at)
        bench.arm(answer, rule_at(answer, Action.DROP, "answer"))
        victim.restart()
        bench.await_fired(answer)
        bench.say("healed")
