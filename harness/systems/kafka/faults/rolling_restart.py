"""RollingRestart: shut down and restart every broker of a cluster, one at a time, while records
flow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import RestartInTurn
from harness.faults.triggers import Needing, await_fault, rule_at
from harness.model.scenario import Evidence
from harness.proofs.leadership import Rolled
from harness.wire.rules import Action, FreezeScope, How

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire


@dataclass(frozen=True, slots=True)
class RollingRestart(Needing):
    """Restart the broker that receives the frame at ``at``; ``pace`` records later the next broker,
    until all were restarted.

    A frame is held while its broker shuts down, and released when the broker is gone. The next
    restart waits until the broker is back and all replicas are in sync. The client's time-out must
    be longer than that.
    """

    id: ClassVar[str] = "rolling-restart"
    abilities: ClassVar[tuple[type, ...]] = (RestartInTurn,)

    at: OnWire
    brokers: int = 3
    pace: int = 2

    def evidence(self) -> Evidence:
        """Return what the history must show as evidence of the fault.

        The rule was hit at the target, no process was killed, and every broker was shut down and
        restarted once.
        """
        return Evidence("rule", at_target=not self.at.offset, proofs=(Rolled(self.brokers),))

    def arm(self, controls: Controls) -> None:
        """Arm one rule for each broker."""
        for number, gate in enumerate(self._gates(), 1):
            name = "fault" if number == 1 else f"gate-{number}"
            controls.arm(gate, rule_at(gate, Action.HOLD, name, freeze=FreezeScope.CLIENT))
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Restart one broker after the other."""
        for number, gate in enumerate(self._gates(), 1):
            fired = await_fault(controls, gate) if number == 1 else controls.await_fired(gate)
            broker = controls.ability(RestartInTurn).next_broker()
            broker.end()
            controls.say("applied", node=broker.name)
            controls.resolve(fired.hold, How.RELEASE)
            broker.restart()
        controls.say("healed")

    def _gates(self) -> list[OnWire]:
        return [
            replace(self.at, offset=self.at.offset + turn * self.pace)
            for turn in range(self.brokers)
        ]
