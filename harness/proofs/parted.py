"""Proof that a member of a group was told to give the target's partition up, or left, while its
work was held.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.model import events as kinds
from harness.model.events import WorkPhase
from harness.model.rebalances import Change
from harness.proofs.moved import left_by_itself, seen_of
from harness.proofs.told import told_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.judge.proof import ProofContext


@dataclass(frozen=True, slots=True)
class PartedWhileHeld:
    """The work of ``role`` was held while its member was told to give the target's partition up, or
    (``change``) left its group by itself and another had that partition.
    """

    name: ClassVar[str] = "parted-while-held"

    role: str
    change: str
    unseen: Sequence[str] = ()
    """The servers to which the role speaks past the wire: its work may be there."""

    def trouble(self, course: ProofContext) -> str | None:
        """Say what of this the history does not show."""
        history = course.history
        at = {e.phase: e.t for e in reversed([*history.of(kinds.Work)])}
        held, released = at.get(WorkPhase.HELD), at.get(WorkPhase.RELEASED)
        if held is None:
            why = f"the {self.role} was given the target, and did nothing that could be held"
        elif released is None:
            why = f"the work of the {self.role} was held and never released"
        elif self.unseen:
            servers = " and ".join(self.unseen)
            why = f"the {self.role} speaks past the wire, and its work at {servers} cannot be held"
        elif self.change == Change.OVERDUE:
            left = left_by_itself(history)
            seen = seen_of(history, course.plan.target)
            if left is None or not held < left.t < released:
                why = f"the {self.role} did not leave its group while its work was held"
            elif seen.assigned is not None and seen.assigned.t < released:
                return None
            else:
                why = f"nobody had the partition of {course.plan.target} before the work went on"
        elif any(held < each.t < released for each in told_of(history, course.plan.target)):
            return None
        else:
            why = (
                f"nobody saw that the {self.role} was told to give the partition of "
                f"{course.plan.target} up while its work was held"
            )
        return f"not tried: {why}"
