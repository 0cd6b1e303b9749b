"""Expire: a reader is away so long that its saved positions are gone when it comes back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.core.scenario import Evidence
from harness.faults.firing import await_fault, rule_at
from harness.proofs.forgotten import Forgot
from harness.wire.rules import Action, How

if TYPE_CHECKING:
    from harness.bench import Bench, InProgram, OnWire


@dataclass(frozen=True, slots=True)
class Expire:
    """At ``at`` the reader dies, and what its group has saved is deleted, as ``offsets.retention.minutes`` would.

    Meanwhile the source goes on up to ``until``; it waits there until the reader is back and knows where it goes on.
    """

    id: ClassVar[str] = "expire"

    at: InProgram
    until: OnWire

    def evidence(self) -> Evidence:
        """The failpoint was hit at the target, the reader died by SIGKILL, and positions were deleted."""
        return Evidence("failpoint", killed=(self.at.role,), forgotten=True, proofs=(Forgot(),))

    def arm(self, bench: Bench) -> None:
        """Arm the failpoint and the rule."""
        bench.arm_failpoint(self.at, "kill")
        bench.arm(self.until, rule_at(self.until, Action.HOLD, "until"))
        bench.say("armed")

    def inject(self, bench: Bench) -> None:
        """Kill it, delete its positions, let it come back, let the source go on."""
        fired = await_fault(bench, self.at)
        reader = bench.target(self.at.role, fired.node)
        reader.kill()
        bench.say("applied", node=reader.name)
        bench.forget_positions()
        reached = bench.await_fired(self.until)
        reader.restart()
        bench.await_reading(reader)
        bench.resolve(reached.hold, How.RELEASE)
        bench.say("healed")
