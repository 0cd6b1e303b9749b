"""OffsetsExpired: a reader is away for so long that its saved positions are gone when it comes
back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import SavedPositions
from harness.controls import Stop
from harness.faults.triggers import Needing, await_fault, rule_at
from harness.model.scenario import Evidence
from harness.proofs.forgotten import Forgot
from harness.wire.rules import Action, How

if TYPE_CHECKING:
    from harness.controls import Controls, InProgram, OnWire


@dataclass(frozen=True, slots=True)
class OffsetsExpired(Needing):
    """Kill the reader at ``at``, and delete its group's saved positions, as
    ``offsets.retention.minutes`` would.

    Meanwhile the source goes on up to ``until``, and waits there until the reader is back and reads
    again.
    """

    id: ClassVar[str] = "offsets-expired"
    abilities: ClassVar[tuple[type, ...]] = (SavedPositions,)

    at: InProgram
    until: OnWire

    def evidence(self) -> Evidence:
        """Return what the history must show as evidence of the fault.

        The failpoint was hit at the target, the reader died by SIGKILL, and positions were deleted.
        """
        return Evidence("failpoint", killed=(self.at.role,), forgotten=True, proofs=(Forgot(),))

    def arm(self, controls: Controls) -> None:
        """Arm the failpoint and the rule."""
        controls.arm(self.at, Stop.KILL)
        controls.arm(self.until, rule_at(self.until, Action.HOLD, "until"))
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Kill the reader, delete its positions, restart it, then let the source go on."""
        fired = await_fault(controls, self.at)
        reader = controls.target(self.at.role, fired.node)
        reader.kill()
        controls.say("applied", node=reader.name)
        controls.ability(SavedPositions).forget()
        reached = controls.await_fired(self.until)
        reader.restart()
        controls.ability(SavedPositions).await_reading(reader)
        controls.resolve(reached.hold, How.RELEASE)
        controls.say("healed")
