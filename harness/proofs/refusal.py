"""Proof that a broker refused the target's message: its own answer says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.model import events as kinds

if TYPE_CHECKING:
    from harness.judge.proof import ProofContext


@dataclass(frozen=True, slots=True)
class Refused:
    """The broker refused one message with the target, and the refusal reached the client."""

    name: ClassVar[str] = "refused"

    def trouble(self, course: ProofContext) -> str | None:
        """Say how often the target's message was refused, if not exactly once."""
        answers = [
            event
            for event in course.history.of(kinds.ProduceAnswer)
            if event.record == course.plan.target
        ]
        times = sum(bool(event.error and event.reached) for event in answers)
        return (
            None
            if times == 1
            else f"the broker refused {course.plan.target} {times} times, not once"
        )
