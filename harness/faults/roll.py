"""Roll: every broker of a cluster is ended in order and started again, one at a time, while records flow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from harness.core.scenario import Evidence
from harness.faults.firing import await_fault, rule_at
from harness.proofs.leadership import Rolled
from harness.wire.rules import Action, FreezeScope, How

if TYPE_CHECKING:
    from harness.bench import Bench, OnWire


@dataclass(frozen=True, slots=True)
class Roll:
    """At ``at`` the broker that it goes to is ended, and started again; ``pace`` records later the next one, until all were.

    A record is on its way whenever a broker goes, and goes on when it is gone; the next broker waits until that one is back and
    all replicas are in sync. A client must wait longer for an answer than that takes.
    """

    id: ClassVar[str] = "roll"

    at: OnWire
    brokers: int = 3
    pace: int = 2

    def evidence(self) -> Evidence:
        """The rule was hit at the target, nobody died, and every broker was restarted once, in order."""
        return Evidence("rule", at_target=not self.at.offset, proofs=(Rolled(self.brokers),))

    def arm(self, bench: Bench) -> None:
        """Arm a rule per broker."""
        for number, gate in enumerate(self._gates(), 1):
            name = "fault" if number == 1 else f"gate-{number}"
            bench.arm(gate, rule_at(gate, Action.HOLD, name, freeze=FreezeScope.CLIENT))
        bench.say("armed")

    def inject(self, bench: Bench) -> None:
        """Restart one broker after the other."""
        for number, gate in enumerate(self._gates(), 1):
            fired = await_fault(bench, gate) if number == 1 else bench.await_fired(gate)
            broker = bench.next_broker()
            broker.end()
            bench.say("applied", node=broker.name)
            bench.resolve(fired.hold, How.RELEASE)
            broker.restart()
        bench.say("healed")

    def _gates(self) -> list[OnWire]:
        return [replace(self.at, offset=self.at.offset + turn * self.pace) for turn in range(self.brokers)]
