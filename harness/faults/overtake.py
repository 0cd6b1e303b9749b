"""Overtake: what a stage does with the target is held on its way out. If something is stored
meanwhile that must wait for it, the stage is killed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import HeldWork, SavedMarks
from harness.faults.triggers import AtTrigger, Needing, await_fault, kill_at, rule_at
from harness.model.rhythm import CLOCK_S
from harness.model.scenario import Evidence
from harness.proofs.overtaken import Overtaken
from harness.wire.rules import Action, How

if TYPE_CHECKING:
    from harness.controls import Controls, InHand, OnWire
    from harness.model.scenario import Role


@dataclass(frozen=True, slots=True)
class CommitOvertakesWork(AtTrigger):
    """The target is alone in hand, and what its stage writes and sends is held.

    If the stage saves its position behind the target before the work is done, the stage is killed
    and the work is discarded. If no such commit comes in time, the work is released. ``work`` is
    ``None`` until a dry run has shown what there is to hold; such a fault cannot be armed.
    """

    id: ClassVar[str] = "commit-overtakes-work"
    abilities: ClassVar[tuple[type, ...]] = (HeldWork,)

    at: OnWire
    work: InHand | None = None

    @property
    def role(self) -> Role:
        """The stage."""
        return self.at.role

    def evidence(self) -> Evidence:
        """Return what the history must show: the target was held on its way to the stage; work was
        held; the stage was killed if, and only if, a commit covered the target meanwhile.
        """
        within_s, unseen = (self.work.within_s, self.work.unseen) if self.work else (0.0, ())
        proof = Overtaken(str(self.role), within_s, unseen=unseen)
        return Evidence("rule", may_kill=(self.role,), proofs=(proof,))

    def inject(self, controls: Controls) -> None:
        """Hold the work, let the target go on, wait for a commit. Kill the stage if one comes, else
        release the work.

        Raises:
            NotFiredError: the target did not come to the stage.
            ValueError: no dry run has shown what there is to hold.
        """
        if self.work is None:
            raise ValueError(
                f"no dry run has shown yet what the {self.role} writes or sends: make one first"
            )
        fired = await_fault(controls, self.at)
        held = controls.ability(HeldWork)
        held.hold(self.work)
        controls.resolve(fired.hold, How.RELEASE)
        if held.await_overtaken(self.work):
            victim = controls.target(self.role, fired.node)
            victim.kill()
            controls.say("applied", node=victim.name)
            held.discard()
            victim.restart()
        else:
            held.release()
            controls.say("applied", node=fired.node)
        controls.say("healed")


@dataclass(frozen=True, slots=True)
class MarkOvertakesAcknowledgement(Needing):
    """A producer's request with the target, or the end of its transaction, is held for ``within_s``
    (seconds), so that a clock which saves marks ticks meanwhile. ``sends``: the request with which
    the producer sends.

    If the producer has saved anything by then, the producer is killed and the request is discarded;
    else the request is released. ``unseen``: the servers at which nobody sees what it saves. Where
    it has such servers, a request that is released proves nothing.
    """

    id: ClassVar[str] = "mark-overtakes-acknowledgement"
    abilities: ClassVar[tuple[type, ...]] = (SavedMarks,)

    at: OnWire
    sends: OnWire
    within_s: float = CLOCK_S
    unseen: tuple[str, ...] = ()

    def evidence(self) -> Evidence:
        """Return what the history must show: the request with the target was held; the producer was
        killed if, and only if, it had saved anything since its first request.
        """
        role = self.at.role
        proof = Overtaken(str(role), self.within_s, mark=True, unseen=self.unseen)
        return Evidence("rule", may_kill=(role,), proofs=(proof,))

    def arm(self, controls: Controls) -> None:
        """Arm the rule that holds the request, and the one at which the producer is looked at."""
        controls.arm(self.at, rule_at(self.at, Action.HOLD))
        controls.ability(SavedMarks).arm(self.sends)
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Hold the request, and look what the producer saves. Kill it if it saves a mark, else
        release the request.

        Raises:
            NotFiredError: the producer did not send the target.
        """
        marks = controls.ability(SavedMarks)
        marks.watch()
        fired = await_fault(controls, self.at)
        overtaken = marks.await_saved(fired.hold, self.within_s)
        if overtaken:
            victim = kill_at(controls, self.at.role, fired)
            victim.restart()
        else:
            marks.release()
            controls.say("applied", node=fired.node)
            controls.resolve(fired.hold, How.RELEASE)
        controls.say("healed")
