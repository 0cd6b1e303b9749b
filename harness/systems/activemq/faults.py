"""Faults that exist only for a broker with KahaDB."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.controls import Role
from harness.faults.triggers import AtTrigger, await_fault
from harness.model.scenario import Evidence
from harness.systems.activemq.abilities import Compaction
from harness.systems.activemq.proofs import CARRIED_ON, UNINDEXED, CarriedOn
from harness.wire.rules import Direction, How

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire


@dataclass(frozen=True, slots=True)
class IndexRebuilt(AtTrigger):
    """Compact the journal, kill the broker, and let it rebuild its index from the journal.

    The request ``at`` waits until the journal goes on in a second file, so the message is in the
    first file, which stays, and its acknowledgement in the second. When everything is read, the
    second file is compacted away, the broker is killed, and its index is deleted.
    """

    id: ClassVar[str] = "index-rebuilt"
    abilities: ClassVar[tuple[type, ...]] = (Compaction,)

    at: OnWire

    def __post_init__(self) -> None:
        if self.at.direction is not Direction.REQUEST:
            raise ValueError(
                "at must be a request: the journal must go on in another file before the broker "
                "gets it"
            )

    def evidence(self) -> Evidence:
        """Return what the history must show as evidence of the fault.

        The rule was hit at the target, the target's acknowledgement was carried over to another
        file, the broker died by SIGKILL, and its index was deleted.
        """
        return Evidence("rule", killed=(Role.BROKER,), proofs=(CarriedOn(),))

    def inject(self, controls: Controls) -> None:
        """Begin a new file, release the request, wait until all is read; then compact, kill, delete
        the index and restart.
        """
        fired = await_fault(controls, self.at)
        journal = controls.ability(Compaction)
        journal.begin_file()
        controls.resolve(fired.hold, How.RELEASE)
        controls.await_exhausted()
        controls.settle()
        controls.say(CARRIED_ON, records=list(journal.compact()))
        broker = controls.target(Role.BROKER)
        broker.kill()
        controls.say("applied", node=broker.name)
        journal.lose_index()
        controls.say(UNINDEXED)
        broker.restart()
        controls.say("healed")
