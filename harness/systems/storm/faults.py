"""What only a topology of Storm can suffer: a worker that dies while one of its connections is behind another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.faults.triggers import await_fault, rule_at
from harness.model.scenario import Evidence
from harness.wire.rules import Action, FreezeScope, How

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire


@dataclass(frozen=True, slots=True)
class KillBetween:
    """The request ``at`` stands still, and nothing else of the worker, until ``then`` has happened on another connection of it.

    Then the worker dies, ``at`` never arrives, and the next worker starts.
    """

    id: ClassVar[str] = "kill-between"

    at: OnWire
    then: OnWire

    def __post_init__(self) -> None:
        if self.at.role is not self.then.role:
            raise ValueError("both are of the one that dies between them")

    def evidence(self) -> Evidence:
        """Both rules were hit, and the worker died by SIGKILL."""
        return Evidence("rule", killed=(self.at.role,), approached=self.at.since is not None)

    def arm(self, controls: Controls) -> None:
        """Arm both rules."""
        controls.arm(self.at, rule_at(self.at, Action.HOLD))
        controls.arm(self.then, rule_at(self.then, Action.HOLD, "then", freeze=FreezeScope.CLIENT))
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Hold the one, wait for the other, kill, discard, wait for the next worker."""
        fired = await_fault(controls, self.at)
        reached = controls.await_fired(self.then)
        victim = controls.target(self.at.role, fired.node)
        victim.kill()
        controls.say("applied", node=victim.name)
        for hold in (fired.hold, reached.hold):
            controls.resolve(hold, How.DISCARD)
        victim.restart()
        controls.say("healed")
