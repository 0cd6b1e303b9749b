"""What a fault of KahaDB must have done, as its history shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from harness.model import events as kinds

if TYPE_CHECKING:
    from harness.judge.proof import Course
    from harness.model.history import History

CARRIED_ON: Final = "carried-on"
"""What is said when acknowledgements were carried on: of which ``records``."""
UNINDEXED: Final = "unindexed"
"""What is said when the index was removed."""


def carried_on(history: History) -> frozenset[str]:
    """Return the records whose acknowledgement was carried on to another file."""
    said = [event for event in history.of(kinds.FAULT) if event.get("phase") == CARRIED_ON]
    return frozenset(record for event in said for record in event["records"])


@dataclass(frozen=True, slots=True)
class CarriedOn:
    """The target's acknowledgement was carried on to another file of the journal, and the index was removed behind it."""

    name: ClassVar[str] = "carried-on"

    def trouble(self, course: Course) -> str | None:
        """Say what was not done."""
        if course.plan.target not in carried_on(course.history):
            return f"the acknowledgement of {course.plan.target} was not in the file that the broker has compacted"
        phases = [event.get("phase") for event in course.history.of(kinds.FAULT)]
        if UNINDEXED not in phases or phases.index(UNINDEXED) < phases.index(CARRIED_ON):
            return "the index was not removed behind the compaction"
        return None
