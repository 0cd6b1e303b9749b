"""Proof that a held frame was released when the awaited event had happened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.model import events as kinds

if TYPE_CHECKING:
    from harness.judge.proof import ProofContext


@dataclass(frozen=True, slots=True)
class LetGo:
    """The frame that was held at the fault's trigger was released after ``until``, which names in
    words the awaited event.
    """

    name: ClassVar[str] = "let-go"

    until: str

    def trouble(self, course: ProofContext) -> str | None:
        """Say that the event did not happen, that the client disconnected, or that the hold was
        longer than its time-out.
        """
        own = {
            event.phase: event for event in course.history.of(kinds.Rule) if event.rule == "fault"
        }
        held, released = own.get(kinds.RulePhase.HELD), own.get(kinds.RulePhase.RELEASED)
        if released is None:
            discarded = own.get(kinds.RulePhase.DISCARDED)
            gone = discarded and discarded.because
            ended = f": {gone}" if gone else ", which did not happen"
            return f"the held frame waited for {self.until}{ended}"
        most_s = held.silence_s if held else None
        waited_s = (released.t - held.t) / 1e9 if held else 0.0
        if most_s is not None and waited_s > most_s:
            return (
                f"the held frame waited {waited_s:.1f} s for {self.until}; its receiver "
                f"disconnects after {most_s:g} s of silence"
            )
        return None
