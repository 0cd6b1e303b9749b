"""Proof that a file of a broker was damaged while it was down, and the records that were hit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from harness.model import events as kinds
from harness.model.events import NodePhase
from harness.model.harms import Damage
from harness.model.prediction import Select

if TYPE_CHECKING:
    from harness.judge.proof import ProofContext
    from harness.model.history import History

DAMAGED: Final = Select("damaged")
"""The record whose bytes were damaged."""
FROM_DAMAGED: Final = Select("from-damaged")
"""That record, and those behind it in its file."""


@dataclass(frozen=True, slots=True)
class FileDamaged:
    """One file of the killed broker was damaged at a record, between its death and its next start:
    one bit differs, or the file ends where the record began.
    """

    name: ClassVar[str] = "file-damaged"

    def trouble(self, course: ProofContext) -> str | None:
        """Say that no file, or another one, was damaged, or at another time, or otherwise."""
        found = list(course.history.of(kinds.Damaged))
        if not found:
            return "no file was damaged"
        one, *more = found
        killed = [each.t for each in course.killed if each.node == one.node]
        if more or not killed:
            return f"{len(found)} files were damaged, the first of {one.node}: one of the broker's"
        up = [
            each.t
            for each in course.history.of(kinds.Node)
            if each.node == one.node and each.phase == NodePhase.STARTED and each.t > killed[0]
        ]
        if one.t < killed[0] or any(t < one.t for t in up):
            return f"{one.path} was damaged while {one.node} lived"
        if one.damage == Damage.TAIL:
            whole = one.after != one.at or one.before <= one.at or one.bits
        else:
            whole = one.bits != 1 or one.before != one.after
        return f"{one.path} is not damaged as it was to be" if whole else None


def damage_selections(history: History, _target: str) -> dict[Select, frozenset[str]]:
    """Return the records that were hit; nothing if no file was damaged."""
    found = list(history.of(kinds.Damaged))
    return (
        {
            DAMAGED: frozenset(each.record for each in found),
            FROM_DAMAGED: frozenset(record for each in found for record in each.behind),
        }
        if found
        else {}
    )
