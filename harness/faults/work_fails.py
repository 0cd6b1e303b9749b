"""WorkFails: a program cannot do the work on a record, and says so to its broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.controls import Stop
from harness.faults.triggers import AtTrigger, await_fault
from harness.model.scenario import Evidence

if TYPE_CHECKING:
    from harness.controls import Controls, InProgram


@dataclass(frozen=True, slots=True)
class WorkFails(AtTrigger):
    """At ``at`` the work on the target fails. The settings say what the program does then."""

    id: ClassVar[str] = "work-fails"
    stops: ClassVar[Stop] = Stop.FAIL

    at: InProgram

    def evidence(self) -> Evidence:
        """Return what the history must show: the failpoint was hit at the target; nobody died."""
        return Evidence("failpoint")

    def inject(self, controls: Controls) -> None:
        """Wait until the work on the target has failed."""
        await_fault(controls, self.at)
        controls.say("healed")
