"""Proof that a held frame was released when the awaited event had happened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.model import events as kinds

if TYPE_CHECKING:
    from harness.judge.proof import Course


@dataclass(frozen=True, slots=True)
class LetGo:
    """What was held at the fault's trigger went on; ``until`` says in words what it waited for."""

    name: ClassVar[str] = "let-go"

    until: str

    def trouble(self, course: Course) -> str | None:
        """Say that the event never came, that the client had disconnected, or that the client would have timed out."""
        own = {event.get("phase"): event for event in course.history.of(kinds.RULE) if event.get("rule") == "fault"}
        held, released = own.get("held", {}), own.get("released")
        if released is None:
            gone = own.get("discarded", {}).get("because")
            ended = f": {gone}" if gone else ", which never came"
            return f"what was held waited for {self.until}{ended}"
        most_s, waited_s = held.get("silence_s"), (released["t"] - held.get("t", released["t"])) / 1e9
        if most_s is not None and waited_s > most_s:
            return f"what was held waited {waited_s:.1f} s for {self.until}, and its peer hangs up after {most_s:g} s of silence"
        return None
