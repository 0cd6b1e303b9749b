"""Parted: the partition of the target becomes another member's while the work on the target is held
on its way out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import HeldWork
from harness.faults.rebalance import ChangesGroup
from harness.faults.triggers import await_fault
from harness.model.rebalances import Change, Regrouping
from harness.model.scenario import Evidence
from harness.proofs.moved import Moved
from harness.proofs.overtaken import MOVING
from harness.proofs.parted import PartedWhileHeld
from harness.wire.rules import How

if TYPE_CHECKING:
    from harness.controls import Controls, InHand, OnWire


@dataclass(frozen=True, slots=True)
class PartedFromWork(ChangesGroup):
    """The target is alone in hand, and what its member writes and sends is held. Either another
    member joins, and the answer that tells the first one is held until then; or (``change``) the
    work is held until the member's client gives its group up, because the program has not asked it
    for more. The work goes on when the target's partition is another's, or some seconds later.

    ``work`` is ``None`` until a dry run has shown what there is to hold; such a fault cannot be
    armed.
    """

    id: ClassVar[str] = "parted-from-work"
    abilities: ClassVar[tuple[type, ...]] = (HeldWork, Regrouping)

    at: OnWire
    work: InHand | None = None
    change: Change = Change.JOINS

    @property
    def joins(self) -> bool:
        """Whether a member joins that is not there before."""
        return self.change is Change.JOINS

    def evidence(self) -> Evidence:
        """Return what the history must show: the target was held on its way to its member; the
        work was held; the member was told, or left by itself, meanwhile; and the target's partition
        was assigned anew.
        """
        role, unseen = str(self.at.role), self.work.unseen if self.work else ()
        proofs = (Moved(role, str(self.change)), PartedWhileHeld(role, str(self.change), unseen))
        return Evidence("rule", proofs=proofs)

    def inject(self, controls: Controls) -> None:
        """Hold the work, let the target go on, change the group, and release the work.

        Raises:
            NotFiredError: the target did not come to the stage.
            ValueError: no dry run has shown what there is to hold.
        """
        if self.work is None:
            raise ValueError(
                f"no dry run has shown yet what the {self.at.role} writes or sends: make one first"
            )
        fired = await_fault(controls, self.at)
        held, group = controls.ability(HeldWork), controls.ability(Regrouping)
        held.hold(self.work)
        if self.joins:
            group.withhold(self.at.role)
        group.prepare(self.at.role, self.change)
        controls.resolve(fired.hold, How.RELEASE)
        held.await_held(self.work)  # the judge finds what the history lacks
        group.begin()
        controls.say("applied", node=fired.node)
        if self.joins:
            group.tell_at_once()
        else:
            group.await_moved()
        held.release(MOVING)
        group.await_moved()
        group.restore()
        controls.say("healed")
