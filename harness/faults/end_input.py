"""EndInput: a producer is given everything that is left, and the end of its input right behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import Input
from harness.faults.triggers import arm_stop, stop_at
from harness.model.scenario import Evidence
from harness.proofs.input import InputEnded
from harness.wire.rules import How

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire


@dataclass(frozen=True, slots=True)
class EndInput:
    """At ``at`` the producer stands still until all other records, and the end behind them, wait in its standard input.

    Then it goes on. The request was lost, and the connection is cut, so that its client has something to send again: one that
    ends when its input does, without waiting for what its client still has in hand, loses that. (On a sound connection most of it
    would be gone before the program is.)
    """

    id: ClassVar[str] = "end-input"

    at: OnWire

    def evidence(self) -> Evidence:
        """The rule was hit at the target, the producer stood still, and its input ended meanwhile; nobody died."""
        return Evidence("rule", paused=(self.at.role,), at_target=not self.at.offset, proofs=(InputEnded(),))

    def needs(self) -> tuple[type, ...]:
        """It brings about the end of the input."""
        return (Input,)

    def arm(self, controls: Controls) -> None:
        """Arm the rule."""
        arm_stop(controls, self.at, freeze=None)
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Stop it, put everything into its input, lose the request, let it go on."""
        producer, hold = stop_at(controls, self.at)
        controls.ability(Input).end()
        controls.resolve(hold, How.DISCARD)
        producer.resume()
        controls.say("healed")
