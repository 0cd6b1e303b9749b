"""Refuse: the broker itself refuses a message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import Refusal
from harness.faults.triggers import await_fault, rule_at
from harness.model.scenario import Evidence
from harness.proofs.refusal import Refused
from harness.wire.rules import Action, Direction, How

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire


@dataclass(frozen=True, slots=True)
class Refuse:
    """The message ``at`` is held until the broker has been told to refuse the next one, and is then sent on to it."""

    id: ClassVar[str] = "refuse"

    at: OnWire

    def __post_init__(self) -> None:
        if self.at.direction is not Direction.REQUEST:
            raise ValueError("what a broker refuses is on its way to it")

    def evidence(self) -> Evidence:
        """The rule was hit at the target, and the broker's answer to it was a refusal; nobody died."""
        return Evidence("rule", proofs=(Refused(),))

    def needs(self) -> tuple[type, ...]:
        """The broker can be told to refuse."""
        return (Refusal,)

    def arm(self, controls: Controls) -> None:
        """Arm the rule."""
        controls.arm(self.at, rule_at(self.at, Action.HOLD))
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Hold the message, tell the broker, release it."""
        fired = await_fault(controls, self.at)
        controls.ability(Refusal).refuse_next()
        controls.say("applied", node=fired.node)
        controls.resolve(fired.hold, How.RELEASE)
        controls.say("healed")
