"""Proofs that a fault of KahaDB happened, from the history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from harness.model import events as kinds

if TYPE_CHECKING:
    from harness.judge.proof import ProofContext
    from harness.model.history import History

CARRIED_ON: Final = "carried-on"
"""The phase of a fault's line that names the ``records`` whose acknowledgements were carried over
to another file.
"""
UNINDEXED: Final = "unindexed"
"""The phase of a fault's line that says that the index was deleted."""


def carried_on(history: History) -> frozenset[str]:
    """Return the records whose acknowledgement was carried over to another file."""
    told = (event.records for event in history.of(kinds.Fault) if event.phase == CARRIED_ON)
    return frozenset(record for records in told if isinstance(records, tuple) for record in records)


@dataclass(frozen=True, slots=True)
class CarriedOn:
    """The target's acknowledgement was carried over to another file of the journal, and the index
    was deleted after that.
    """

    name: ClassVar[str] = "carried-on"

    def trouble(self, course: ProofContext) -> str | None:
        """Say which of the two did not happen, or return ``None``."""
        if course.plan.target not in carried_on(course.history):
            return (
                f"the acknowledgement of {course.plan.target} was not in the file that the "
                "broker has compacted"
            )
        phases = [event.phase for event in course.history.of(kinds.Fault)]
        if UNINDEXED not in phases or phases.index(UNINDEXED) < phases.index(CARRIED_ON):
            return "the index was not deleted after the compaction"
        return None
