"""Proof that retention has passed a reader: the log begins behind its saved position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from harness.model import events as kinds
from harness.model.sign import Sign
from harness.model.struck import starts_of

if TYPE_CHECKING:
    from harness.judge.proof import ProofContext
    from harness.model.history import History

WENT_ON: Final = Sign(
    "went-on-behind-retention",
    "the log began behind its reader's saved position; the reader went on with what was left",
)


@dataclass(frozen=True, slots=True)
class Passed:
    """When the reader of ``role`` was started again, the log of a partition began behind the
    position that its group had saved, if it had saved one, and had records; whatever had been
    deleted was recorded. A reader without a saved position begins where its settings say.
    """

    name: ClassVar[str] = "passed"

    role: str

    def trouble(self, course: ProofContext) -> str | None:
        """Say what of this the history does not show."""
        history = course.history
        told = passed_in(history)
        if told is None:
            return "retention deleted nothing"
        if told.saved is not None and told.saved >= told.start:
            return (
                f"the {self.role} had saved position {told.saved} of {told.topic}/"
                f"{told.partition}, and the log began at {told.start}: retention did not pass it"
            )
        back = starts_of(history, self.role, told.t)
        if not back:
            return f"the {self.role} was not started again behind the retention"
        if told.end <= told.start:
            return f"{told.topic}/{told.partition} had no newer record for the {self.role}"
        recorded = {e.record for e in history.of(kinds.Recorded)}
        if gone := sorted(
            {
                e.record
                for e in history.of(kinds.Removed)
                if e.record is not None and e.record not in recorded
            }
        ):
            return (
                f"not tried: {', '.join(gone)} was deleted, and the {self.role} had asked to save "
                "its position behind it without having recorded it"
            )
        return None


def passed_in(history: History) -> kinds.Overrun | None:
    """Return the line that says where a log began when its reader came back."""
    return next(iter(history.of(kinds.Overrun)), None)


def retention_signs(history: History) -> dict[Sign, set[str]]:
    """Return the records behind which retention passed a reader, where the reader was given the
    first one that was left.
    """
    told = passed_in(history)
    if told is None:
        return {}
    went_on = any(
        e.reached and e.t > told.t and e.at == (told.partition, told.start)
        for e in history.of(kinds.Fetched)
        if e.topic == told.topic
    )
    return {WENT_ON: {told.record}} if went_on else {}
