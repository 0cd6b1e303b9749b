"""Zombie: a process is paused, a second one takes its place, and then the first goes on as if
nothing had happened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import Succession
from harness.controls import Stop, Trigger
from harness.faults.triggers import AtTrigger, stop_at
from harness.model.scenario import Evidence
from harness.wire.rules import FreezeScope, How

if TYPE_CHECKING:
    from harness.controls import Controls


@dataclass(frozen=True, slots=True)
class Zombie(AtTrigger):
    """Pause the process at ``at``, let a replacement do all the work, then let the first process go
    on.
    """

    id: ClassVar[str] = "zombie"
    abilities: ClassVar[tuple[type, ...]] = (Succession,)
    stops: ClassVar[Stop] = Stop.PAUSE
    freezes: ClassVar[FreezeScope | None] = FreezeScope.CLIENT

    at: Trigger

    def evidence(self) -> Evidence:
        """Return what the history must show: the trigger was hit at the target, and the process was
        paused.
        """
        return Evidence(self.at.kind, paused=(self.at.role,))

    def inject(self, controls: Controls) -> None:
        """Pause the process, start the replacement, let it finish, then resume the first."""
        sleeper, hold = stop_at(controls, self.at)
        controls.ability(Succession).stand_in(self.at.role)
        controls.await_exhausted()
        controls.settle()
        sleeper.resume()
        controls.resolve(hold, How.RELEASE)
        controls.ability(Succession).await_zombie(sleeper)
        controls.say("healed")
