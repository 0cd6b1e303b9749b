"""What a fault of a job must have done, as its history shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from harness.model import events as kinds

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


def _told(course: Course) -> list[Event]:
    """What the JobManager said of checkpoints before the TaskManager died."""
    dead = min((event["t"] for event in course.killed), default=None)
    return [e for e in course.history.of(kinds.FAULT) if e.get("phase") == "checkpoint" and (dead is None or e["t"] < dead)]
