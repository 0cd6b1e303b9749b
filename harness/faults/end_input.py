"""EndInput: a producer gets all remaining records and the end of its standard input at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import Input
from harness.faults.triggers import AtTrigger, stop_at
from harness.model.scenario import Evidence
from harness.proofs.input import InputEnded
from harness.wire.rules import How

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire


@dataclass(frozen=True, slots=True)
class EndInput(AtTrigger):
    """At ``at`` the producer is stopped until all other records, and the end of input, wait in its
    standard input.

    Then it goes on. Its request is lost and its connection cut, so its client library must send
    records again. A program that exits at the end of its input without flushing its client loses
    these records. (On an intact connection most of them would have been sent by then.)
    """

    id: ClassVar[str] = "end-input"
    abilities: ClassVar[tuple[type, ...]] = (Input,)

    at: OnWire

    def evidence(self) -> Evidence:
        """Return what the history must show.

        The rule was hit at the target, the producer stood still, and its input ended meanwhile;
        nobody died.
        """
        return Evidence(
            "rule", paused=(self.at.role,), at_target=not self.at.offset, proofs=(InputEnded(),)
        )

    def inject(self, controls: Controls) -> None:
        """Stop the producer, write everything into its input, drop the request, let the producer go
        on.
        """
        producer, hold = stop_at(controls, self.at)
        controls.ability(Input).end()
        controls.resolve(hold, How.DISCARD)
        producer.resume()
        controls.say("healed")
