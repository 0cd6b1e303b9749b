"""Proof that compaction has taken a record before its reader came back: its offset is missing, and
a later record of its key is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from harness.model import events as kinds
from harness.model.events import NodePhase
from harness.model.sign import Sign

if TYPE_CHECKING:
    from harness.judge.proof import ProofContext
    from harness.model.history import History

READ_ON: Final = Sign(
    "read-on-behind-the-gap",
    "compaction had taken the record that its reader would have been given next; the reader went "
    "on with the first one behind it",
)


@dataclass(frozen=True, slots=True)
class CompactedAway:
    """When the reader of ``role`` was started again, the target was missing in its log, a later
    record of its key was there, and no reader had been given the target.
    """

    name: ClassVar[str] = "compacted-away"

    role: str

    def trouble(self, course: ProofContext) -> str | None:
        """Say what of this the history does not show."""
        history = course.history
        told = compacted_in(history)
        if told is None:
            return "no log was compacted"
        at = f"{told.topic}/{told.partition}"
        if told.next == told.offset:
            return f"{told.record} was still at {told.offset} of {at}: compaction did not take it"
        if told.later is None or told.later <= told.offset:
            return f"{at} had no later record with the key of {told.record}"
        given = [
            e for e in history.of(kinds.Fetched) if (e.record, e.topic) == (told.record, told.topic)
        ]
        if any(e.reached for e in given):
            return f"not tried: a reader was given {told.record} before compaction took it"
        back = [
            e.t
            for e in history.of(kinds.Node)
            if (e.role, e.phase) == (self.role, NodePhase.STARTED) and e.t > told.t
        ]
        return None if back else f"the {self.role} was not started again behind the compaction"


def compacted_in(history: History) -> kinds.Compacted | None:
    """Return the line that says what a log had when its reader came back."""
    return next(iter(history.of(kinds.Compacted)), None)


def compaction_signs(history: History) -> dict[Sign, set[str]]:
    """Return the records that compaction took before a reader, where the reader was given the first
    one behind the gap.
    """
    told = compacted_in(history)
    if told is None or told.next is None:
        return {}
    went_on = any(
        e.reached and e.t > told.t and e.at == (told.partition, told.next)
        for e in history.of(kinds.Fetched)
        if e.topic == told.topic
    )
    return {READ_ON: {told.record}} if went_on else {}


__all__ = ["READ_ON", "CompactedAway", "compacted_in", "compaction_signs"]
