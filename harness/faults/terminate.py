"""Terminate: a process is told to end (SIGTERM) with records in hand, as a rolling deploy does, and
is started again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import Termination
from harness.faults.triggers import await_fault, rule_at
from harness.model.scenario import Evidence
from harness.wire.rules import Action, How

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire


@dataclass(frozen=True, slots=True)
class Terminate:
    """At ``at`` the process gets SIGTERM, and its held frames are released at once. It shuts down
    by itself.

    A process that has not ended after the usual grace period of an orchestrator is killed.
    """

    id: ClassVar[str] = "terminate"

    at: OnWire

    def evidence(self) -> Evidence:
        """Return what the history must show: the rule was hit at the target, and the process was
        told to end.
        """
        return Evidence("rule", at_target=not self.at.offset, told=(self.at.role,))

    def needs(self) -> tuple[type, ...]:
        """Return the abilities that it needs: the system must be able to send SIGTERM
        to a stage.
        """
        return (Termination,)

    def arm(self, controls: Controls) -> None:
        """Arm the rule. The process is not frozen: it may have much to do before it ends."""
        controls.arm(self.at, rule_at(self.at, Action.HOLD))
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Send SIGTERM, release held frames, wait for the end, start the process again."""
        fired = await_fault(controls, self.at)
        told = controls.ability(Termination).stage(self.at.role, fired.node)
        told.tell_to_end()
        controls.say("applied", node=told.name)
        controls.resolve(fired.hold, How.RELEASE)
        told.await_end()
        told.restart()
        controls.say("healed")
