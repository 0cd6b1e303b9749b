"""What a fault of a job must have done, as its history shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from harness.model import events as kinds
from harness.systems.flink.signs import beside_stand

if TYPE_CHECKING:
    from harness.judge.proof import Course
    from harness.model.history import Event

SAYS: Final = {"incomplete": "IN_PROGRESS", "completed": "COMPLETED"}


@dataclass(frozen=True, slots=True)
class CheckpointWas:
    """By the JobManager, the last checkpoint was ``incomplete``, or ``completed``, when the TaskManager died."""

    name: ClassVar[str] = "checkpoint-was"

    status: str

    def trouble(self, course: Course) -> str | None:
        """Say what the JobManager said instead."""
        told = _told(course)
        if not told:
            return "nobody asked the JobManager what became of the checkpoint"
        last = told[-1]
        if last["status"] == SAYS[self.status]:
            return None
        return f"checkpoint {last['number']} was to be {self.status}, and the JobManager said {last['status']}"


@dataclass(frozen=True, slots=True)
class CheckpointRefused:
    """A checkpoint that all had acknowledged has failed before the TaskManager died."""

    name: ClassVar[str] = "checkpoint-refused"

    def trouble(self, course: Course) -> str | None:
        """Say that none has."""
        told = _told(course)
        if any(e["status"] == "FAILED" and e["acknowledged"] == e["of"] for e in told):
            return None
        return "no checkpoint that all had acknowledged has failed"


@dataclass(frozen=True, slots=True)
class ReadersWaited:
    """Readers did not see, or saw at once (``waiting``), what the job had committed that was submitted anew."""

    name: ClassVar[str] = "readers-waited"

    waiting: bool

    def trouble(self, course: Course) -> str | None:
        """Say what they saw instead."""
        unseen = [event["unseen"] for event in course.history.of(kinds.FAULT) if event.get("phase") == "readers"]
        if not unseen:
            return "nobody looked what readers saw"
        if bool(unseen[0]) is not self.waiting:
            return f"readers were to {'wait' if self.waiting else 'see all'}, and {unseen[0]} offsets could not be read"
        return f"readers waited to the end, for {unseen[-1]} offsets" if unseen[-1] else None


@dataclass(frozen=True, slots=True)
class Aligned:
    """While one input stood still, what the others had behind their barriers came to nobody (``waited``), or was worked on."""

    name: ClassVar[str] = "aligned"

    waited: bool

    def trouble(self, course: Course) -> str | None:
        """Say that it was otherwise, or that there was nothing."""
        beside = beside_stand(course.history)
        dead = min((event["t"] for event in course.killed), default=None)
        fetched = {e["record"] for e in course.history.of(kinds.FETCHED) if dead is None or e["t"] < dead}
        if not beside & fetched:
            return "the other inputs had nothing behind their barriers"
        given = {e["record"] for e in course.history.of(kinds.DELIVERED) if dead is None or e["t"] < dead} & beside
        if self.waited:
            return f"{len(given)} records behind a barrier were worked on" if given else None
        return None if given == beside else f"of {len(beside)} records behind a barrier {len(given)} were worked on"


def _told(course: Course) -> list[Event]:
    """What the JobManager said of checkpoints before the TaskManager died."""
    dead = min((event["t"] for event in course.killed), default=None)
    return [e for e in course.history.of(kinds.FAULT) if e.get("phase") == "checkpoint" and (dead is None or e["t"] < dead)]
