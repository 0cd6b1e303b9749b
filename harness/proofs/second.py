"""Proof that the second of two faults struck after the first one had ended the process of the same
role.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from harness.model import events as kinds
from harness.model.events import NodePhase, RulePhase

if TYPE_CHECKING:
    from harness.judge.proof import ProofContext

BEHIND: Final = "second-"
"""How the ids of the second fault's rules begin."""


@dataclass(frozen=True, slots=True)
class InSuccessor:
    """The second fault's trigger was hit after the first fault had ended the process of ``role``,
    by SIGKILL or SIGTERM.
    """

    name: ClassVar[str] = "in-successor"

    role: str

    def trouble(self, course: ProofContext) -> str | None:
        """Say that the second trigger was hit in a process that the first fault had yet to end."""
        rules = course.history.of(kinds.Rule)
        hit = next(
            (e.t for e in rules if e.phase == RulePhase.HIT and e.rule.startswith(BEHIND)),
            None,
        )
        told = (e for e in course.history.of(kinds.Node) if e.phase == NodePhase.TOLD)
        ended = min((e.t for e in (*course.killed, *told) if e.role == self.role), default=None)
        if hit is not None and (ended is None or hit < ended):
            return (
                f"the second fault was hit in the {self.role} that the first fault had yet to end"
            )
        return None
