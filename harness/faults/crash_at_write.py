"""CrashAtWrite: a stage is held at a durable write that follows the target record, and killed there
with all its processes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import DurableWrites
from harness.controls import AtWrite, OnWire
from harness.faults.triggers import Needing, await_fault
from harness.model.scenario import Evidence, Role

if TYPE_CHECKING:
    from harness.controls import Controls
    from harness.model.writes import Point
    from harness.wire.rules import Direction, StepName


@dataclass(frozen=True, slots=True)
class CrashAtWrite(Needing):
    """After a reader gets the target, its tracer holds it at the durable write ``point``. It is
    killed there and restarted.

    Nobody knows which record that write is about: the target, or one that was read before it or
    with it. ``point`` is ``None`` until a dry run has shown which durable writes there are; such a
    fault cannot be armed. ``given`` (step and direction) is the frame that brings the target.
    """

    id: ClassVar[str] = "crash-at-write"
    abilities: ClassVar[tuple[type, ...]] = (DurableWrites,)

    role: Role
    given: tuple[StepName, Direction]
    point: Point | None = None

    def evidence(self) -> Evidence:
        """Return what the history must show.

        A thread was held at this write, after its stage had got the target; the stage died by
        SIGKILL.
        """
        return Evidence(
            "durable", killed=(self.role,), approached=True, write=str(self.point or "")
        )

    def arm(self, controls: Controls) -> None:
        """Arm the trigger from which the writes are counted: the target on its way to
        the reader.
        """
        controls.ability(DurableWrites).arm(self._at())
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Kill the stage at the write where it is held, and restart it."""
        fired = await_fault(controls, self._at())
        victim = controls.target(self.role, fired.node)
        victim.kill()
        controls.say("applied", node=victim.name)
        victim.restart()
        controls.say("healed")

    def _at(self) -> AtWrite:
        if self.point is None:
            raise ValueError(
                f"no dry run has shown yet which durable writes the {self.role} makes: make one "
                "first"
            )
        return AtWrite(self.role, self.point, OnWire(self.role, *self.given))
