"""What an application must have been doing when it died."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from harness.model import events as kinds

if TYPE_CHECKING:
    from harness.judge.proof import Course

RESTORE: Final = "restore"
"""The rule that holds what an instance would make its state of."""


@dataclass(frozen=True, slots=True)
class Restoring:
    """Between its two deaths an instance has asked its changelog for its state, and was not answered."""

    name: ClassVar[str] = "restoring"

    def trouble(self, course: Course) -> str | None:
        """Say that it died otherwise."""
        deaths = [event["t"] for event in course.killed]
        rules = [event for event in course.history.of(kinds.RULE) if event.get("rule") == RESTORE]
        asked = [event["t"] for event in rules if event.get("phase") == "hit"]
        if not any(first < at < second for at in asked for first in deaths for second in deaths):
            return "no instance was killed while it made its state anew"
        if not any(event.get("phase") == "discarded" for event in rules):
            return "what an instance made its state of was not kept from it"
        return None
