"""Terminate: a process is told to end (SIGTERM) with records in hand, as a rolling deploy does, and is started again."""

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
    """At ``at`` the process is told to end; what the wire held of it goes on at once. It ends in its own order.

    One that has not ended after the grace that orchestrators give is killed, as they do.
    """

    id: ClassVar[str] = "terminate"

    at: OnWire

    def evidence(self) -> Evidence:
        """The rule was hit at the target, and the process was told to end."""
        return Evidence("rule", at_target=not self.at.offset, told=(self.at.role,))

    def needs(self) -> tuple[type, ...]:
        """It tells a stage to end."""
        return (Termination,)

    def arm(self, controls: Controls) -> None:
        """Arm the rule. Nothing of the process is frozen: it may have much to do before it ends."""
        controls.arm(self.at, rule_at(self.at, Action.HOLD))
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Tell it, let go, wait for its end, start it again."""
        fired = await_fault(controls, self.at)
        told = controls.ability(Termination).stage(self.at.role, fired.node)
        told.tell_to_end()
        controls.say("applied", node=told.name)
        controls.resolve(fired.hold, How.RELEASE)
        told.await_end()
        told.restart()
        controls.say("healed")
