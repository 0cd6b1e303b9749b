"""PartitionFilled: a topic gets more partitions, and records in them, before its reader learns of
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import NewPartitions
from harness.faults.triggers import AtTrigger, await_fault
from harness.model.scenario import Evidence
from harness.proofs.growth import Filled
from harness.wire.rules import FreezeScope, How

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire
    from harness.model.scenario import Role


@dataclass(frozen=True, slots=True)
class PartitionFilled(AtTrigger):
    """At ``at`` the sender and the ``reader`` are killed, and the topic gets more partitions.

    The sender starts again, and so knows the new partitions. The reader starts again when they have
    records: it has saved no position in them.
    """

    id: ClassVar[str] = "partition-filled"
    abilities: ClassVar[tuple[type, ...]] = (NewPartitions,)
    freezes: ClassVar[FreezeScope | None] = FreezeScope.CLIENT

    at: OnWire
    reader: Role

    def __post_init__(self) -> None:
        if self.at.role is self.reader:
            raise ValueError("at must be a frame of the stage that sends, and reader another stage")

    def evidence(self) -> Evidence:
        """Return what the history must show: the rule was hit at the target, both stages died by
        SIGKILL, and added partitions had records when the reader came back.
        """
        killed = (self.at.role, self.reader)
        return Evidence("rule", killed=killed, proofs=(Filled(str(self.reader)),))

    def inject(self, controls: Controls) -> None:
        """Kill both, add partitions, restart the sender, and when they have records the reader."""
        fired = await_fault(controls, self.at)
        sender, reader = controls.target(self.at.role, fired.node), controls.target(self.reader)
        reader.kill()
        sender.kill()
        controls.say("applied", node=sender.name)
        controls.resolve(fired.hold, How.DISCARD)
        controls.ability(NewPartitions).add()
        sender.restart()
        controls.ability(NewPartitions).await_filled()
        reader.restart()
        controls.say("healed")
