"""Outlive: an outage that is longer than a transaction may take; its coordinator ends the transaction meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.core.scenario import Evidence
from harness.faults.firing import arm_stop, stop_at
from harness.wire.rules import How

if TYPE_CHECKING:
    from harness.bench import Bench, OnWire


@dataclass(frozen=True, slots=True)
class Outlive:
    """At ``at`` the process is stopped until the coordinator has aborted its transaction; then it goes on.

    Where its client tells it that it may not, it ends, and its supervisor starts it again.
    """

    id: ClassVar[str] = "outlive"

    at: OnWire

    def evidence(self) -> Evidence:
        """The rule was hit at the target, and the process was stopped."""
        return Evidence("rule", paused=(self.at.role,), at_target=not self.at.offset)

    def arm(self, bench: Bench) -> None:
        """Arm the rule."""
        arm_stop(bench, self.at)
        bench.say("armed")

    def inject(self, bench: Bench) -> None:
        """Stop it, wait for the abort, wake it, start it again where it ends."""
        sleeper, hold = stop_at(bench, self.at)
        bench.await_aborted(sleeper)
        sleeper.resume()
        bench.resolve(hold, How.RELEASE)
        bench.supervise(sleeper)
        bench.say("healed")
