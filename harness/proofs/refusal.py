"""Proof that a broker refused the target's message, by its own answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.model import events as kinds

if TYPE_CHECKING:
    from harness.judge.proof import Course


@dataclass(frozen=True, slots=True)
class Refused:
    """One message with the target was refused, and the refusal arrived."""

    name: ClassVar[str] = "refused"

    def trouble(self, course: Course) -> str | None:
        """Say how often it was refused, if not once."""
        answers = [event for event in course.history.of(kinds.PRODUCE_ANSWER) if event["record"] == course.plan.target]
        times = sum(bool(event["error"]) and event["reached"] for event in answers)
        return None if times == 1 else f"the broker refused {course.plan.target} {times} times, not once"
