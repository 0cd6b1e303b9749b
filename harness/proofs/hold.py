"""That what was held until something happened went on then."""

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
        """Say that it never came, or that nobody was there any more for whom to wait."""
        own = [event for event in course.history.of(kinds.RULE) if event.get("rule") == "fault"]
        if any(event.get("phase") == "released" for event in own):
            return None
        gone = next((event["because"] for event in own if event.get("phase") == "discarded" and event.get("because")), None)
        ended = f": {gone}" if gone else ", which never came"
        return f"what was held waited for {self.until}{ended}"
