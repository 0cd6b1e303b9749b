"""Proof that work was held on its way out of a stage, and that the stage was killed if a commit
overtook the work, and only then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from harness.model import events as kinds
from harness.model.events import WorkPhase
from harness.model.sign import Sign
from harness.model.struck import hits_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from harness.judge.proof import ProofContext
    from harness.model.history import History

POSITION_WAITED: Final = Sign(
    "position-waited",
    "the work on this record was held, and no commit covered it: the position waited for the work",
)
MARK_WAITED: Final = Sign(
    "mark-waited",
    "the request with this record was held, and its producer saved nothing: the mark waited for "
    "the acknowledgement",
)
MARK: Final = "mark"
"""What was awaited in vain, if it was not a position."""
MOVING: Final = "moving"
"""What was awaited, if it was that the partition becomes another's."""
SLACK: Final = 0.99
"""The runner's clock and the history's may differ by so much."""


@dataclass(frozen=True, slots=True)
class Overtaken:
    """Work of ``role`` was held. Either a commit (of a producer: a mark) overtook it and the role
    was killed, or none did within ``within_s`` and the work was released.
    """

    name: ClassVar[str] = "overtaken"

    role: str
    within_s: float
    mark: bool = False
    """Whether the role is a producer, whose marks in the source must wait."""
    unseen: Sequence[str] = ()
    """The servers to which the role speaks past the wire: its mark, or its work, may be there."""

    def trouble(self, course: ProofContext) -> str | None:
        """Say what of this the history does not show."""
        at = {e.phase: e.t for e in reversed([*course.history.of(kinds.Work)])}
        killed = next((e.t for e in course.killed if e.role == self.role), None)
        if WorkPhase.WATCHED not in at:
            return f"the fault fired, but nobody held the work of the {self.role}"
        if WorkPhase.HELD not in at:
            return (
                f"not tried: the {self.role} was given the target, and did nothing that could be "
                "held"
            )
        if WorkPhase.COVERED in at:
            return self._spared(max(at[WorkPhase.COVERED], at[WorkPhase.HELD]), killed)
        if killed is not None:
            return f"the {self.role} was killed, though no {self._what} had overtaken its work"
        return self._kept(at[WorkPhase.HELD], at.get(WorkPhase.RELEASED))

    @property
    def _what(self) -> str:
        return "mark" if self.mark else "commit"

    def _spared(self, overtaken: int, killed: int | None) -> str | None:
        """Say that the stage was not killed when a commit had overtaken its work."""
        if killed is None:
            return f"a {self._what} overtook the work of the {self.role}, which was not killed"
        if killed < overtaken:
            return f"the {self.role} was killed before a {self._what} overtook its work"
        return None

    def _kept(self, held: int, released: int | None) -> str | None:
        """Say that the work was never released, or before a commit could come."""
        if released is None:
            return f"the work of the {self.role} was held and never released"
        waited_s = (released - held) / 1e9
        if waited_s < self.within_s * SLACK:
            return (
                f"the work of the {self.role} was released after {waited_s:.1f} s; a {self._what} "
                f"may take {self.within_s:g} s"
            )
        if self.unseen:
            servers = " and ".join(self.unseen)
            what = (
                f"a mark at {servers} cannot be seen"
                if self.mark
                else (f"its work at {servers} cannot be held")
            )
            return f"not tried: the {self.role} speaks past the wire, and {what}"
        return None


def overtaking_signs(history: History) -> Mapping[Sign, AbstractSet[str]]:
    """Return the records whose work was held and released, and nothing had overtaken it."""
    found = {e.phase: e for e in history.of(kinds.Work)}
    if not {WorkPhase.HELD, WorkPhase.RELEASED} <= {*found} or WorkPhase.COVERED in found:
        return {}
    if found[WorkPhase.RELEASED].how == MOVING:
        return {}
    sign = MARK_WAITED if found[WorkPhase.RELEASED].how == MARK else POSITION_WAITED
    return {sign: frozenset(e.record for e in hits_of(history) if e.record is not None)}
