"""Drop: one frame is lost and the connection is cut (a network loses a packet, and the peer
notices).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.faults.triggers import AtTrigger, await_fault, rule_at
from harness.model.scenario import Evidence
from harness.wire.rules import Action, After, Rule

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire


@dataclass(frozen=True, slots=True)
class Drop(AtTrigger):
    """The frame at ``at`` never reaches its destination; ``after`` says what the connection does
    then.
    """

    id: ClassVar[str] = "drop"

    at: OnWire
    after: After = After.CUT

    def evidence(self) -> Evidence:
        """Return what the history must show: the rule was hit at the target; nobody died."""
        return Evidence("rule", at_target=self.at.at_target, approached=self.at.since is not None)

    def _rule(self) -> Rule:
        """Return the rule."""
        return rule_at(self.at, Action.DROP, after=self.after)

    def inject(self, controls: Controls) -> None:
        """Wait until the wire has dropped the frame."""
        await_fault(controls, self.at)
        controls.say("healed")
