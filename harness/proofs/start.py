"""Proof that a stage was started only when records were there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from harness.model import events as kinds
from harness.model.sign import Sign
from harness.model.struck import hits_of, starts_of

if TYPE_CHECKING:
    from harness.judge.proof import ProofContext
    from harness.model.history import History


FAULT: Final = "start-late"
"""The id of the fault."""
READ_LATE: Final = Sign(
    "read-late",
    "it was there before its reader was started for the first time, and was given to it",
)


def start_signs(history: History) -> dict[Sign, set[str]]:
    """Return the records behind which a reader was started, if they were given to a reader."""
    if not any(e.fault == FAULT for e in history.of(kinds.Fault)):
        return {}
    return {
        READ_LATE: {
            record
            for hit in hits_of(history)
            for record in hit.records or ()
            if any(
                e.record == record and e.t > hit.t and e.reached for e in history.of(kinds.Fetched)
            )
        }
    }


@dataclass(frozen=True, slots=True)
class StartedLate:
    """The stage of ``role`` was started for the first time after the fault's trigger was hit."""

    name: ClassVar[str] = "started-late"

    role: str

    def trouble(self, course: ProofContext) -> str | None:
        """Say that the stage was never started, or before the records were there."""
        first = min(starts_of(course.history, self.role), default=None)
        if first is None:
            return f"the {self.role} was never started"
        if first < (course.fired_at or 0):
            return f"the {self.role} was started before the records were there"
        return None
