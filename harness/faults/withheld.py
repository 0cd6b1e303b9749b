"""Withheld: a request is on its way until its sender has made something else durable; then the
sender is killed, and the request never arrives.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.controls import NotFiredError, OnWire, Stop
from harness.faults.triggers import await_fault, rule_at
from harness.model.scenario import Evidence
from harness.proofs.cut_short import DIES
from harness.wire.rules import Action, Direction, FreezeScope, How

if TYPE_CHECKING:
    from harness.controls import Controls, Trigger


@dataclass(frozen=True, slots=True)
class Withheld:
    """The request ``at`` is held on its living connection, and its sender is killed at its next
    durable step, ``dies``: an answer on another connection, or a place in its program. An answer is
    counted since ``at``, or is about the target itself.

    A sender that waits for the answer to ``at`` first does not come to ``dies``. After
    ``patience_s`` seconds the request goes on, and the sender is killed at ``dies`` all the same.
    """

    id: ClassVar[str] = "withheld"

    at: OnWire
    dies: Trigger
    patience_s: float = 3.0

    def __post_init__(self) -> None:
        if self.at.direction is not Direction.REQUEST:
            raise ValueError("only a request can be withheld from the broker")
        counted = self.dies.since in (None, self.at) if isinstance(self.dies, OnWire) else True
        if self.dies.role != self.at.role or not counted:
            raise ValueError(
                f"dies must be a frame of the {self.at.role} that is counted since at or about the "
                "target, or a failpoint of its program"
            )

    def evidence(self) -> Evidence:
        """Return what the history must show: the rule was hit at the target, and the sender died by
        SIGKILL.
        """
        return Evidence(
            "rule",
            killed=(self.at.role,),
            at_target=self.at.at_target,
            approached=self.at.since is not None,
        )

    def arm(self, controls: Controls) -> None:
        """Arm both. The sender is not frozen by the first: it may go on, also where the second,
        which is about the target, comes before the first.
        """
        controls.arm(self.at, rule_at(self.at, Action.HOLD))
        if isinstance(self.dies, OnWire):
            freeze = FreezeScope.CLIENT if self.dies.since else None
            controls.arm(self.dies, rule_at(self.dies, Action.HOLD, DIES, freeze=freeze))
        else:
            controls.arm(self.dies, Stop.KILL)
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Hold the request, wait for the sender's next durable step, kill the sender there, discard
        what is held, start the sender again.
        """
        fired = await_fault(controls, self.at)
        until = time.monotonic() + self.patience_s
        held = [fired.hold]
        try:
            reached = controls.await_fired(self.dies, unless=lambda: time.monotonic() > until)
        except NotFiredError:
            controls.resolve(held.pop(), How.RELEASE)
            reached = controls.await_fired(self.dies)
        victim = controls.target(self.at.role, reached.node)
        victim.kill()
        controls.say("applied", node=victim.name)
        for hold in (*held, reached.hold):
            controls.resolve(hold, How.DISCARD)
        victim.restart()
        controls.say("healed")
