"""Work fails: a program cannot do what a record asks of it, and says so to whom it has the record from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.controls import Stop
from harness.faults.triggers import await_fault
from harness.model.scenario import Evidence

if TYPE_CHECKING:
    from harness.controls import Controls, InProgram


@dataclass(frozen=True, slots=True)
class WorkFails:
    """At ``at`` the work on the target fails. What the program does about that, its settings say."""

    id: ClassVar[str] = "work-fails"

    at: InProgram

    def evidence(self) -> Evidence:
        """The failpoint was hit at the target; nobody died."""
        return Evidence("failpoint")

    def arm(self, controls: Controls) -> None:
        """Arm the failpoint."""
        controls.arm(self.at, Stop.FAIL)
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Wait until it has happened."""
        await_fault(controls, self.at)
        controls.say("healed")
