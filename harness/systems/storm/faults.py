"""The fault that exists only for Storm: kill a worker while one of its connections is behind
another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.faults.triggers import await_fault, rule_at
from harness.model.scenario import Evidence
from harness.wire.rules import Action, Direction, How

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire


@dataclass(frozen=True, slots=True)
class KillBetween:
    """Hold the request ``at`` and the answer ``then`` on two connections of a worker, in either
    order; then kill the worker.

    ``at`` never arrives, and the next worker starts. The request of the answer ``then`` was
    executed.
    """

    id: ClassVar[str] = "kill-between"

    at: OnWire
    then: OnWire

    def __post_init__(self) -> None:
        if self.at.role is not self.then.role:
            raise ValueError("at and then must have the same role, which is killed")
        if (
            self.at.direction is not Direction.REQUEST
            or self.then.direction is not Direction.RESPONSE
        ):
            raise ValueError(
                "at must be a request, which never arrives; then must be a response, whose "
                "request was executed"
            )

    def evidence(self) -> Evidence:
        """Return what the history must show: both rules were hit, and the worker died
        by SIGKILL.
        """
        return Evidence("rule", killed=(self.at.role,), approached=self.at.since is not None)

    def arm(self, controls: Controls) -> None:
        """Arm both rules."""
        controls.arm(self.at, rule_at(self.at, Action.HOLD))
        controls.arm(self.then, rule_at(self.then, Action.HOLD, "then"))
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Hold both frames, kill the worker, discard the frames, and wait for the next worker."""
        fired = await_fault(controls, self.at)
        reached = controls.await_fired(self.then)
        victim = controls.target(self.at.role, fired.node)
        victim.kill()
        controls.say("applied", node=victim.name)
        for hold in (fired.hold, reached.hold):
            controls.resolve(hold, How.DISCARD)
        victim.restart()
        controls.say("healed")
