"""Proof that compaction has taken a record before its reader came back: its offset is missing, and
a later record of its key is there.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from harness.model import events as kinds
from harness.model.events import ConnPhase
from harness.model.sign import Sign
from harness.model.struck import starts_of

if TYPE_CHECKING:
    from harness.judge.proof import ProofContext
    from harness.model.history import History
    from harness.model.tail import SoFar

READ_ON: Final = Sign(
    "read-on-behind-the-gap",
    "compaction had taken the record that its reader would have been given next; the reader went "
    "on with the first one behind it",
)


@dataclass(frozen=True, slots=True)
class CompactedAway:
    """When the reader of ``role`` was started again, the target was missing in its log, a later
    record of its key was there, and it had not been given the target. Nobody else read that log.
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
        given = given_by(history, told.topic)
        if any(line.record == told.record for line in given.get(self.role, ())):
            return f"not tried: the {self.role} was given {told.record} before compaction took it"
        if others := sorted(given.keys() - {self.role}):
            return (
                f"not tried: the {' and the '.join(others)} reads {told.topic}, too, and nobody "
                "knows whose results what compaction took would have been"
            )
        back = starts_of(history, self.role, told.t)
        return None if back else f"the {self.role} was not started again behind the compaction"


def compacted_in(history: History) -> kinds.Compacted | None:
    """Return the line that says what a log had when its reader came back."""
    return next(iter(history.of(kinds.Compacted)), None)


def given_by(seen: History | SoFar, topic: str) -> dict[str, list[kinds.Fetched]]:
    """Return what each stage was given from a topic, by its role."""
    roles, found = _roles(seen), defaultdict(list)
    for line in seen.of(kinds.Fetched):
        if line.reached and line.topic == topic and (role := roles.get(line.conn)):
            found[role].append(line)
    return found


def how_far(seen: History | SoFar, topic: str, role: str) -> dict[tuple[str, int], int]:
    """Return how far a stage is in each log of a topic: it was given the copy before that, or has
    saved that as its position.
    """
    roles = _roles(seen)
    lines = [(each.partition, (each.offset or 0) + 1) for each in given_by(seen, topic)[role]]
    lines += [
        (each.partition, each.offset)
        for each in seen.of(kinds.Committed)
        if each.reached and each.topic == topic
        if roles.get(int(str(each.request).partition(":")[0])) == role
    ]
    found: dict[tuple[str, int], int] = {}
    for partition, offset in lines:
        log = topic, partition or 0
        found[log] = max(found.get(log, 0), offset)
    return found


def _roles(seen: History | SoFar) -> dict[int | None, str | None]:
    """Return whose each connection is."""
    return {e.conn: e.role for e in seen.of(kinds.Conn) if e.phase is ConnPhase.OPEN}


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
