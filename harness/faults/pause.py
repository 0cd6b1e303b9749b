"""Pause: a process is stopped for longer than its session time-out, and wakes up after another took
over: a zombie.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import Membership, Rebalance
from harness.controls import OnWire, Stop, Trigger
from harness.faults.triggers import AtTrigger, rule_at, stop_at
from harness.model.scenario import Evidence
from harness.wire.rules import Action, Direction, FreezeScope, How

if TYPE_CHECKING:
    from harness.controls import Controls


@dataclass(frozen=True, slots=True)
class Pause(AtTrigger):
    """At ``at`` the process is stopped until its group has removed it; then it goes on as if
    nothing had happened.

    ``others_finish``: it goes on only after the members that took over have done all the work.
    ``others_ask``: it goes on when those members have asked for the positions of their new
    partitions; the wire holds its own request to rejoin until they have worked. ``told``: its held
    frames are released only after an answer has told it that it was removed.
    """

    id: ClassVar[str] = "pause"
    stops: ClassVar[Stop] = Stop.PAUSE
    freezes: ClassVar[FreezeScope | None] = FreezeScope.CLIENT

    at: Trigger
    others_finish: bool = True
    others_ask: bool = False
    told: bool = False

    def evidence(self) -> Evidence:
        """Return what the history must show: the trigger was hit at the target, and the process was
        stopped.
        """
        return Evidence(self.at.kind, paused=(self.at.role,))

    def needs(self) -> tuple[type, ...]:
        """Return the abilities that it needs: the system must have groups that remove a stopped
        member.
        """
        return (Membership, Rebalance) if self.others_ask else (Membership,)

    def inject(self, controls: Controls) -> None:
        """Stop the process, wait until its group has removed it and others have taken over, wake
        it.
        """
        sleeper, hold = stop_at(controls, self.at)
        members = controls.ability(Membership)
        members.await_expired(self.at.role)
        joins = None
        if self.others_ask:
            rebalance = controls.ability(Rebalance)
            joins = OnWire(self.at.role, rebalance.joins, Direction.REQUEST, since=self.at)
            controls.arm(joins, rule_at(joins, Action.HOLD, "joins"))
            rebalance.await_asked(self.at.role, sleeper)
        if (
            self.others_finish
        ):  # put out and not replaced yet, it might be back before anybody had taken over anything
            controls.await_exhausted()
            controls.settle()
        sleeper.resume()
        if self.told:
            members.await_put_out(sleeper)
        controls.resolve(hold, How.RELEASE)
        if joins is not None:
            held = controls.await_fired(joins)
            controls.await_exhausted()
            controls.settle()
            controls.resolve(held.hold, How.RELEASE)
        controls.say("healed")
