"""Stall: a server stands still while a program works on a record, and goes on after a while, as if
nothing had happened.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.faults.triggers import AtTrigger, await_fault
from harness.model.scenario import Evidence
from harness.model.waiting import wait_until
from harness.wire.rules import How

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire
    from harness.model.scenario import Role


@dataclass(frozen=True, slots=True)
class Stall(AtTrigger):
    """At ``at`` the ``victim`` is stopped for ``seconds``; the frame that the wire holds is
    released at once.
    """

    id: ClassVar[str] = "stall"

    at: OnWire
    victim: Role
    seconds: float

    def __post_init__(self) -> None:
        if self.victim is self.at.role:
            raise ValueError(
                f"Stall stops a server that the {self.victim} works with, not the {self.victim} "
                "itself: use Pause"
            )
        if self.seconds <= 0:
            raise ValueError("seconds must be above 0")

    def evidence(self) -> Evidence:
        """Return what the history must show: the rule was hit at the target, and the victim was
        stopped, and woke up.
        """
        return Evidence("rule", paused=(self.victim,))

    def inject(self, controls: Controls) -> None:
        """Stop the victim, let the program go on, wake the victim when its time is over."""
        fired = await_fault(controls, self.at)
        victim = controls.target(self.victim)
        victim.pause()
        controls.say("applied", node=victim.name)
        controls.resolve(fired.hold, How.RELEASE)
        over = time.monotonic() + self.seconds
        wait_until(
            lambda: time.monotonic() >= over,
            within_s=self.seconds + 1,
            because=f"the end of the {victim.name}'s pause",
        )
        victim.resume()
        controls.say("healed")
