"""StartLate: a reader is started for the first time when records are there already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import Beginning
from harness.faults.triggers import AtTrigger, await_fault, rule_at
from harness.model.scenario import Evidence
from harness.proofs.start import FAULT, StartedLate
from harness.wire.rules import Action, How, Rule

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire
    from harness.model.scenario import Role


@dataclass(frozen=True, slots=True)
class StartLate(AtTrigger):
    """The stage ``reader`` is left out when the others start. It is started when the frame ``at``
    has passed, which shows that records are there for it to read. ``held``: the frame, and what is
    behind it, waits until the stage is ready.
    """

    id: ClassVar[str] = FAULT
    abilities: ClassVar[tuple[type, ...]] = (Beginning,)

    at: OnWire
    reader: Role
    held: bool = False

    def __post_init__(self) -> None:
        if self.at.role is self.reader:
            raise ValueError(f"at must be a frame of another stage than the {self.reader}")

    def evidence(self) -> Evidence:
        """Return what the history must show: the rule was hit at the target, and the stage was
        started after that.
        """
        return Evidence("rule", proofs=(StartedLate(str(self.reader)),))

    def _rule(self) -> Rule:
        """Return the rule. It does nothing to its frame, or holds it."""
        return rule_at(self.at, Action.HOLD if self.held else Action.MARK)

    def inject(self, controls: Controls) -> None:
        """Wait until the records are there, start the stage; release what is held."""
        fired = await_fault(controls, self.at)
        controls.ability(Beginning).begin(self.reader)
        if self.held:
            controls.resolve(fired.hold, How.RELEASE)
        controls.say("healed")
