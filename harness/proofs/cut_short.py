"""Proof that a process which was told to end was killed at a frame of its orderly end, or ended
before it came to that frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from signal import SIGKILL
from typing import TYPE_CHECKING, ClassVar, Final

from harness.model import events as kinds
from harness.model.events import NodePhase, RulePhase

if TYPE_CHECKING:
    from harness.judge.proof import ProofContext

DIES: Final = "dies"
"""How the ids of the rules end at which a process is killed while it ends."""


@dataclass(frozen=True, slots=True)
class CutShort:
    """The rule at which the process of ``role`` is killed was armed when the process was told to
    end. If the rule was hit, the process died of SIGKILL after that.
    """

    name: ClassVar[str] = "cut-short"

    role: str

    def trouble(self, course: ProofContext) -> str | None:
        """Say that nothing waited for the process to end, or that it was not killed at the hit."""
        nodes = [e for e in course.history.of(kinds.Node) if e.role == self.role]
        told = next((e.t for e in nodes if e.phase == NodePhase.TOLD), None)
        rules = [e for e in course.history.of(kinds.Rule) if e.rule.endswith(DIES)]
        armed = next((e.t for e in rules if e.phase == RulePhase.ARMED), None)
        if told is None or armed is None or armed > told:
            return f"nothing was to kill the {self.role} while it ended"
        end = next((e for e in nodes if e.phase == NodePhase.EXITED and e.t > told), None)
        if end is None:
            return f"the {self.role} was told to end, and nobody saw it end"
        hit = next((e.t for e in rules if e.phase == RulePhase.HIT), None)
        if hit is not None and (end.t < hit or end.signal != SIGKILL):
            return f"the {self.role} was not killed at the step of its end that it had come to"
        return None
