"""Faults that only a broker with KahaDB can have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.controls import Role
from harness.faults.triggers import await_fault, rule_at
from harness.model.scenario import Evidence
from harness.systems.activemq.abilities import Compaction
from harness.systems.activemq.proofs import CARRIED_ON, UNINDEXED, CarriedOn
from harness.wire.rules import Action, Direction, How

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire


@dataclass(frozen=True, slots=True)
class IndexRebuilt:
    """The journal is compacted; then the broker dies, and makes its index anew from the journal.

    The request ``at`` waits until the journal goes on in another file: what ends there has begun in the file before, which stays.
    When all is read, the other file is compacted until it is gone, the broker is killed, and its index removed.
    """

    id: ClassVar[str] = "index-rebuilt"

    at: OnWire

    def __post_init__(self) -> None:
        if self.at.direction is not Direction.REQUEST:
            raise ValueError("what is to stand in another file must be on its way to the broker")

    def evidence(self) -> Evidence:
        """Return what the history must show.

        The rule was hit at the target, the target's acknowledgement was carried on to another file, the broker died by SIGKILL
        and its index was removed.
        """
        return Evidence("rule", killed=(Role.BROKER,), proofs=(CarriedOn(),))

    def needs(self) -> tuple[type, ...]:
        """The broker can be told to compact its journal, and its index can be lost."""
        return (Compaction,)

    def arm(self, controls: Controls) -> None:
        """Arm the rule."""
        controls.arm(self.at, rule_at(self.at, Action.HOLD))
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Begin a file, release the request, wait until all is read; compact, kill, remove the index, restart."""
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


FAULTS = {fault.id: fault for fault in (IndexRebuilt,)}
"""The registry: each of them by its name."""
