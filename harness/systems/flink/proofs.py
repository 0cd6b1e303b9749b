"""Proofs that a fault of a job happened, from the history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from harness.model import events as kinds
from harness.model.events import FaultPhase
from harness.systems.flink.signs import records_behind_standstill

if TYPE_CHECKING:
    from harness.judge.proof import ProofContext


SAYS: Final = {"incomplete": "IN_PROGRESS", "completed": "COMPLETED"}


@dataclass(frozen=True, slots=True)
class CheckpointWas:
    """The JobManager reported the last checkpoint as ``incomplete`` or ``completed`` when the
    TaskManager was killed.
    """

    name: ClassVar[str] = "checkpoint-was"

    status: str

    def trouble(self, course: ProofContext) -> str | None:
        """Say which other status the JobManager reported, or return ``None``."""
        told = _told(course)
        if not told:
            return "the JobManager was not asked for the status of the checkpoint"
        last = told[-1]
        if last.status == SAYS[self.status]:
            return None
        return (
            f"checkpoint {last.number} must be {self.status}, but the JobManager reported "
            f"{last.status}"
        )


@dataclass(frozen=True, slots=True)
class CheckpointRefused:
    """A checkpoint failed after all tasks had acknowledged it, before the TaskManager
    was killed.
    """

    name: ClassVar[str] = "checkpoint-refused"

    def trouble(self, course: ProofContext) -> str | None:
        """Say that there is no such checkpoint, or return ``None``."""
        told = _told(course)
        if any(e.status == "FAILED" and e.acknowledged == e.of for e in told):
            return None
        return "no checkpoint failed after all tasks had acknowledged it"


@dataclass(frozen=True, slots=True)
class ReadersWaited:
    """Readers had to wait (``waiting``) for what the newly submitted job had committed, or saw it
    at once.
    """

    name: ClassVar[str] = "readers-waited"

    waiting: bool

    def trouble(self, course: ProofContext) -> str | None:
        """Say what readers saw instead, or return ``None``."""
        unseen = [
            event.unseen
            for event in course.history.of(kinds.Fault)
            if event.phase == FaultPhase.READERS
        ]
        if not unseen:
            return "it was not checked what readers saw"
        if bool(unseen[0]) is not self.waiting:
            return (
                f"readers must {'wait' if self.waiting else 'see everything'}, but they could "
                f"not read {unseen[0]} offsets"
            )
        return (
            f"readers still could not read {unseen[-1]} offsets at the end" if unseen[-1] else None
        )


@dataclass(frozen=True, slots=True)
class Aligned:
    """While one input stood still, records after the other inputs' barriers waited (``waited``), or
    were processed.
    """

    name: ClassVar[str] = "aligned"

    waited: bool

    def trouble(self, course: ProofContext) -> str | None:
        """Say why this is not proved, or return ``None``."""
        beside = records_behind_standstill(course.history)
        dead = min((event.t for event in course.killed), default=None)
        fetched = {e.record for e in course.history.of(kinds.Fetched) if dead is None or e.t < dead}
        if not beside & fetched:
            return "the other inputs had fetched no record after their barriers"
        given = {
            e.record for e in course.history.of(kinds.Delivered) if dead is None or e.t < dead
        } & beside
        if self.waited:
            return (
                f"{len(given)} records after a barrier were processed instead of waiting"
                if given
                else None
            )
        return (
            None
            if given == beside
            else f"only {len(given)} of {len(beside)} records after a barrier were processed"
        )


def _told(course: ProofContext) -> list[kinds.Fault]:
    """Return the JobManager's reports of checkpoints before the TaskManager was killed."""
    dead = min((event.t for event in course.killed), default=None)
    return [
        e
        for e in course.history.of(kinds.Fault)
        if e.phase == FaultPhase.CHECKPOINT and (dead is None or e.t < dead)
    ]
