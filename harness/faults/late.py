"""Late: a request is delayed until its sender has asked again and gone on; then it arrives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.faults.triggers import await_fault, rule_at
from harness.model.scenario import Evidence
from harness.wire.rules import Action, Direction, FreezeScope, How

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire


@dataclass(frozen=True, slots=True)
class Late:
    """The request ``at`` is held and its connection cut. When the frame ``into`` comes, the wire
    delivers the request.

    The request goes over a connection of its own, and ``into`` waits meanwhile. With ``kill`` the
    sender is killed after that, and ``into`` is discarded. If ``dies`` is given, the sender goes
    on, and is killed at that trigger.
    """

    id: ClassVar[str] = "late"

    at: OnWire
    into: OnWire
    kill: bool = False
    dies: OnWire | None = None

    def __post_init__(self) -> None:
        if self.at.direction is not Direction.REQUEST:
            raise ValueError("only a request can arrive late: a response belongs to its connection")
        if self.at.role is not self.into.role:
            raise ValueError(
                f"into must be a frame of the {self.at.role}, which sent the late request"
            )
        if self.dies is not None and not self.kill:
            raise ValueError("dies needs kill=True: it says where the sender is killed")

    def evidence(self) -> Evidence:
        """Return what the history must show: the rule was hit at the target; with ``kill``, the
        sender died by SIGKILL.
        """
        return Evidence(
            "rule",
            killed=(self.at.role,) if self.kill else (),
            at_target=not self.at.offset,
            approached=self.at.since is not None,
        )

    def arm(self, controls: Controls) -> None:
        """Arm both rules."""
        controls.arm(self.at, rule_at(self.at, Action.HOLD))
        controls.arm(self.into, rule_at(self.into, Action.HOLD, "into", freeze=FreezeScope.CLIENT))
        if self.dies is not None:
            controls.arm(
                self.dies, rule_at(self.dies, Action.HOLD, "dies", freeze=FreezeScope.CLIENT)
            )
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Hold the request and cut its connection, wait until the sender has gone on, let the
        request arrive.
        """
        fired = await_fault(controls, self.at)
        controls.resolve(fired.hold, How.RELEASE_LATER)
        reached = controls.await_fired(self.into)
        controls.resolve(fired.hold, How.DELIVER)
        controls.say("applied", node=fired.node)
        if self.dies is not None:
            controls.resolve(reached.hold, How.RELEASE)
            reached = controls.await_fired(self.dies)
        if self.kill:
            victim = controls.target(self.at.role, fired.node)
            victim.kill()
            controls.resolve(reached.hold, How.DISCARD)
            victim.restart()
        else:
            controls.resolve(reached.hold, How.RELEASE)
        controls.say("healed")
