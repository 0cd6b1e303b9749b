"""RetentionPasses: while a reader is down, the topic loses the records behind its saved position
that it has worked on, and gets new ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import Retention
from harness.faults.triggers import AtTrigger, await_fault, kill_at
from harness.model.scenario import Evidence
from harness.proofs.retention import Passed
from harness.wire.rules import FreezeScope

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire


@dataclass(frozen=True, slots=True)
class RetentionPasses(AtTrigger):
    """At ``at``, where the reader asks to save its position behind the target, it is killed, and
    the position is not saved. The records up to the target are deleted from its partition.

    The reader starts again when the partition has newer records. Its position is behind the start
    of the log then, and what it does follows from its own settings.
    """

    id: ClassVar[str] = "retention-passes"
    abilities: ClassVar[tuple[type, ...]] = (Retention,)
    freezes: ClassVar[FreezeScope | None] = FreezeScope.CLIENT

    at: OnWire

    def evidence(self) -> Evidence:
        """Return what the history must show: the rule was hit at the target, the reader died by
        SIGKILL, and the log began behind its position, and had newer records, when it came back.
        """
        proof = Passed(str(self.at.role))
        return Evidence(
            "rule", killed=(self.at.role,), at_target=not self.at.offset, proofs=(proof,)
        )

    def inject(self, controls: Controls) -> None:
        """Kill the reader, delete records, wait for newer ones, start the reader again."""
        fired = await_fault(controls, self.at)
        reader = kill_at(controls, self.at.role, fired)
        controls.ability(Retention).expire()
        reader.restart()
        controls.say("healed")
