"""Unanswered: a stage is killed, and its first request of a kind after the restart is not answered,
or refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.controls import OnWire
from harness.faults.triggers import AtTrigger, await_fault, kill_at, rule_at
from harness.model.scenario import Evidence
from harness.proofs.answer import Answered
from harness.wire.rules import Action, Direction, FreezeScope, StepName

if TYPE_CHECKING:
    from harness.controls import Controls
    from harness.wire.rules import Rule


@dataclass(frozen=True, slots=True)
class Unanswered(AtTrigger):
    """At ``at`` the process is killed. It starts again, and the first answer to ``asks`` is lost
    and the connection cut.

    ``asks`` is a request for a position or a producer's identity. A client that takes a missing
    answer for an answer goes on at a wrong place. With ``told`` the wire refuses the request with
    that error in the broker's name, and the broker never gets it.
    """

    id: ClassVar[str] = "unanswered"
    freezes: ClassVar[FreezeScope | None] = FreezeScope.CLIENT

    at: OnWire
    asks: StepName
    told: str | None = None

    def __post_init__(self) -> None:
        self._loss()

    @property
    def _asked(self) -> OnWire:
        way = Direction.RESPONSE if self.told is None else Direction.REQUEST
        return OnWire(self.at.role, self.asks, way, since=self.at)

    def _loss(self) -> Rule:
        if self.told is None:
            return rule_at(self._asked, Action.DROP, "answer")
        return rule_at(self._asked, Action.ANSWER, "answer", error=self.told)

    def evidence(self) -> Evidence:
        """Return what the history must show.

        The rule was hit at the target, and the process died by SIGKILL; the fault heals only when
        the answer was lost.
        """
        proofs = () if self.told is None else (Answered(self.told),)
        return Evidence(
            "rule",
            killed=(self.at.role,),
            at_target=not self.at.offset,
            approached=True,
            proofs=proofs,
        )

    def inject(self, controls: Controls) -> None:
        """Kill the process, arm the loss of the answer, restart the process, wait until the answer
        was lost.
        """
        fired = await_fault(controls, self.at)
        victim = kill_at(controls, self.at.role, fired)
        controls.arm(self._asked, self._loss())
        victim.restart()
        controls.await_fired(self._asked)
        controls.say("healed")
