"""Terminate: a process is told to end (SIGTERM) with records in hand, as a rolling deploy does, and is started again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.core.scenario import Evidence
from harness.faults.firing import await_fault, rule_at
from harness.wire.rules import Action, How

if TYPE_CHECKING:
    from harness.bench import Bench, OnWire


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

    def arm(self, bench: Bench) -> None:
        """Arm the rule. Nothing of the process is frozen: it may have much to do before it ends."""
        bench.arm(self.at, rule_at(self.at, Action.HOLD))
        bench.say("armed")

    def inject(self, bench: Bench) -> None:
        """Tell it, let go, wait for its end, start it again."""
        fired = await_fault(bench, self.at)
        told = bench.stage(self.at.role, fired.node)
        told.tell_to_end()
        bench.say("applied", node=told.name)
        bench.resolve(fired.hold, How.RELEASE)
        told.await_end()
        told.restart()
        bench.say("healed")
