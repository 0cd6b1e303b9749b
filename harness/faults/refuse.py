"""Refuse: the broker itself refuses a message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import Refusal
from harness.faults.triggers import AtTrigger, await_fault
from harness.model.scenario import Evidence
from harness.proofs.refusal import Refused
from harness.wire.rules import Direction, How

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire


@dataclass(frozen=True, slots=True)
class Refuse(AtTrigger):
    """The wire holds the message ``at``, tells the broker to refuse the next message, and then
    sends the held one on.
    """

    id: ClassVar[str] = "refuse"
    abilities: ClassVar[tuple[type, ...]] = (Refusal,)

    at: OnWire

    def __post_init__(self) -> None:
        if self.at.direction is not Direction.REQUEST:
            raise ValueError("at must be a request: a broker can refuse only what it is sent")

    def evidence(self) -> Evidence:
        """Return what the history must show: the rule was hit at the target, the broker's answer
        refuses it, nobody died.
        """
        return Evidence("rule", proofs=(Refused(),))

    def inject(self, controls: Controls) -> None:
        """Hold the message, tell the broker, release it."""
        fired = await_fault(controls, self.at)
        controls.ability(Refusal).refuse_next()
        controls.say("applied", node=fired.node)
        controls.resolve(fired.hold, How.RELEASE)
        controls.say("healed")
