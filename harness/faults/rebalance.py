"""Rebalanced: a group shares out its partitions anew while all its members live, at an exact moment
of the target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.faults.triggers import AtTrigger, await_fault
from harness.model.rebalances import Change, Regrouping
from harness.model.scenario import Evidence
from harness.proofs.moved import Moved
from harness.proofs.told import ToldWhileSaving
from harness.wire.rules import Direction, How

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire


class ChangesGroup(AtTrigger):
    """A fault that changes the group of a stage whose members all live."""

    abilities: ClassVar[tuple[type, ...]] = (Regrouping,)
    at: OnWire

    @property
    def joins(self) -> bool:
        """Whether a member joins that is not there before."""
        return True


@dataclass(frozen=True, slots=True)
class Rebalanced(ChangesGroup):
    """At ``at`` the group of a stage is changed, and the target's partition is given up by the
    member that has the target. No process is killed before that, or stopped.

    A member that is put out has its frame released when another has its partition: as after a pause
    that was longer than its session, or after work that was longer than ``max.poll.interval``. In
    all other cases the frame goes on as soon as the group begins to share out anew.
    """

    id: ClassVar[str] = "rebalanced"

    at: OnWire
    change: Change
    dies: bool = False
    """Whether the member that has the target is killed when its partition is assigned anew."""

    def evidence(self) -> Evidence:
        """Return what the history must show: the rule was hit at the target, the change was made,
        and then the target's partition was assigned anew.
        """
        role = self.at.role
        saved = self.change is Change.PUT_OUT and self.at.direction is Direction.RESPONSE
        proof = Moved(str(role), str(self.change), saved=saved)
        return Evidence("rule", killed=(role,) if self.dies else (), proofs=(proof,))

    @property
    def joins(self) -> bool:
        """Whether a member joins that is not there before."""
        return self.change in {Change.JOINS, Change.COMES_AND_GOES}

    def inject(self, controls: Controls) -> None:
        """Change the group, let the held frame go on, and wait until the partition is assigned."""
        fired = await_fault(controls, self.at)
        group = controls.ability(Regrouping)
        group.prepare(self.at.role, self.change)
        put_out = self.change is Change.PUT_OUT
        if not put_out:
            controls.resolve(fired.hold, How.RELEASE)
            group.await_given()
        group.begin()
        controls.say("applied", node=fired.node)
        group.await_moved()
        if put_out:
            controls.resolve(fired.hold, How.RELEASE)
        if self.dies:
            victim = controls.target(self.at.role, fired.node)
            victim.kill()
            victim.restart()
        group.restore()
        controls.say("healed")


@dataclass(frozen=True, slots=True)
class PutOutWhileJoining(ChangesGroup):
    """At ``at`` another member joins. The member that the target is on its way to is told so, and
    asks to join again; the request is held until the group has put the member out and
    the others have done all the work that there is. Then it arrives; the target never does, over
    this connection.
    """

    id: ClassVar[str] = "put-out-while-joining"

    at: OnWire

    def evidence(self) -> Evidence:
        """Return what the history must show: the rule was hit at the target, another member joined,
        and got the target's partition.
        """
        proof = Moved(str(self.at.role), str(Change.JOINS), elsewhere=True)
        return Evidence("rule", proofs=(proof,))

    def inject(self, controls: Controls) -> None:
        """Let another member join, hold the first one's request to join again, put the first one
        out, and let the others work.
        """
        fired = await_fault(controls, self.at)
        group = controls.ability(Regrouping)
        group.prepare(self.at.role, Change.JOINS)
        group.begin(keep=True)
        controls.say("applied", node=fired.node)
        group.await_moved()
        controls.settle()
        controls.resolve(fired.hold, How.DISCARD)
        group.restore()
        controls.say("healed")


@dataclass(frozen=True, slots=True)
class ToldLate(ChangesGroup):
    """At ``at`` another member joins. The answer by which the member with the target learns of it
    is held until that asks to save a position; then it has the answer, and its request stays on its
    way, or (``answered``) the answer to that. All go on a little later.
    """

    id: ClassVar[str] = "told-late"

    at: OnWire
    answered: bool = False

    def evidence(self) -> Evidence:
        """Return what the history must show: the rule was hit at the target, another member joined,
        the first one was told while its position was on its way, and the target's partition was
        assigned anew.
        """
        moved = Moved(str(self.at.role), str(Change.JOINS))
        return Evidence("rule", proofs=(moved, ToldWhileSaving(self.answered)))

    def inject(self, controls: Controls) -> None:
        """Let another member join, and the first one learn of it while its position is underway."""
        fired = await_fault(controls, self.at)
        group = controls.ability(Regrouping)
        group.withhold(self.at.role)  # first: in the newer protocol a member joins at once
        group.prepare(self.at.role, Change.JOINS)
        controls.resolve(fired.hold, How.RELEASE)
        group.await_given()
        group.begin()
        controls.say("applied", node=fired.node)
        group.tell(answered=self.answered)
        group.await_moved()
        group.restore()
        controls.say("healed")
