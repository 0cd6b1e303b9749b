"""Terminate: a process is told to end (SIGTERM) with records in hand, as a rolling deploy does, and
is started again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import Termination
from harness.controls import NotFiredError
from harness.faults.triggers import Needing, await_fault, rule_at
from harness.model.scenario import Evidence
from harness.proofs.cut_short import DIES, CutShort
from harness.wire.rules import Action, FreezeScope, How

if TYPE_CHECKING:
    from harness.abilities import Stage
    from harness.controls import Controls, OnWire


@dataclass(frozen=True, slots=True)
class Terminate(Needing):
    """At ``at`` the process gets SIGTERM, and its held frames are released at once. It shuts down
    by itself.

    A process that has not ended after the usual grace period of an orchestrator is killed. If
    ``dies`` is given, the process is killed at that frame while it shuts down, and the frame is
    discarded. A process that ends without coming to that frame is not killed.
    """

    id: ClassVar[str] = "terminate"
    abilities: ClassVar[tuple[type, ...]] = (Termination,)

    at: OnWire
    dies: OnWire | None = None

    def __post_init__(self) -> None:
        if self.dies is not None and (self.dies.role, self.dies.since) != (self.at.role, self.at):
            raise ValueError(
                f"dies must be a frame of the {self.at.role} that is counted since at: it says "
                "where the process is killed while it ends"
            )

    def evidence(self) -> Evidence:
        """Return what the history must show: the rule was hit at the target, and the process was
        told to end.

        With ``dies``: that rule was armed when it was told, and it was killed there, or had ended
        before.
        """
        return Evidence(
            "rule",
            at_target=not self.at.offset,
            approached=self.at.since is not None,
            told=(self.at.role,),
            proofs=() if self.dies is None else (CutShort(str(self.at.role)),),
        )

    def arm(self, controls: Controls) -> None:
        """Arm the rules. The process is not frozen: it may have much to do before it ends."""
        controls.arm(self.at, rule_at(self.at, Action.HOLD))
        if self.dies is not None:
            rule = rule_at(self.dies, Action.HOLD, DIES, freeze=FreezeScope.CLIENT)
            controls.arm(self.dies, rule)
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Send SIGTERM, release held frames, wait for the end or cut it short, start the process
        again.
        """
        fired = await_fault(controls, self.at)
        told = controls.ability(Termination).stage(self.at.role, fired.node)
        told.tell_to_end()
        controls.say("applied", node=told.name)
        controls.resolve(fired.hold, How.RELEASE)
        if self.dies is not None:
            self._cut_short(controls, told, self.dies)
        told.await_end()
        told.restart()
        controls.say("healed")

    @staticmethod
    def _cut_short(controls: Controls, told: Stage, dies: OnWire) -> None:
        """Kill the process at ``dies``, unless it ends before: the frame is not its successor's."""
        try:
            reached = controls.await_fired(dies, unless=told.ended)
        except NotFiredError:
            controls.disarm()
            return
        told.kill()
        controls.resolve(reached.hold, How.DISCARD)
