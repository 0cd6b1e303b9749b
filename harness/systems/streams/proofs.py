"""Proofs of what an application was doing when it was killed or told to end, from the history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from harness.model import events as kinds
from harness.model.sign import Sign
from harness.model.states import Hop

if TYPE_CHECKING:
    from harness.judge.proof import Course
    from harness.model.history import Event, History

RESTORE: Final = "restore"
"""The name of the rule that holds the changelog's answers to an instance that restores
its state.
"""
SENT_UNFED: Final = Sign(
    "sent-unfed",
    (
        "an incarnation that was given no record until it was told to end sent this record's "
        "result and committed it"
    ),
)


@dataclass(frozen=True, slots=True)
class Restoring:
    """Between its two deaths the instance asked the changelog for its state and got no answer."""

    name: ClassVar[str] = "restoring"

    def trouble(self, course: Course) -> str | None:
        """Say why this is not proved, or return ``None``."""
        deaths = [event["t"] for event in course.killed]
        rules = [event for event in course.history.of(kinds.RULE) if event.get("rule") == RESTORE]
        asked = [event["t"] for event in rules if event.get("phase") == "hit"]
        if not any(first < at < second for at in asked for first in deaths for second in deaths):
            return "no instance was killed while it restored its state"
        if not any(event.get("phase") == "discarded" for event in rules):
            return "the wire did not discard the changelog's answer to the instance"
        return None


@dataclass(frozen=True, slots=True)
class SentUnfed:
    """Between the two times it was told to end, the application was given no record and sent the
    target from its store.
    """

    name: ClassVar[str] = "sent-unfed"

    def trouble(self, course: Course) -> str | None:
        """Say why this is not proved, or return ``None``."""
        told = [event for event in course.history.of(kinds.NODE) if event.get("phase") == "told"]
        if len(told) != 2:  # noqa: PLR2004 - as the fault does it
            return f"the application was told to end {len(told)} times, not twice"
        first, second = (f"{event['node']}-{event['incarnation']}" for event in told)
        if any(event["by"] == second for event in course.history.of(kinds.DELIVERED)):
            return "the application was given a record between its two ends"
        results = results_of(course.history, course.plan.target)
        if any(event["attempt"].startswith(f"{first}.") for event in results):
            return "the target was sent before the application was told to end"
        sent = (event["t"] for event in results if event["attempt"].startswith(f"{second}."))
        return (
            None
            if any(t < told[1]["t"] for t in sent)
            else "the application did not send the target between its two ends"
        )


def results_of(history: History, record: str) -> list[Event]:
    """Return the wire's lines of sends of a record's results."""
    return [
        event
        for event in history.of(kinds.SENT)
        if event["record"] == record and event.get("attempt")
    ]


def unfed_signs(history: History) -> dict[Sign, set[str]]:
    """Return the records with a committed result from an incarnation that was given no record until
    it was told to end.
    """
    unfed = {
        f"{e['node']}-{e['incarnation']}"
        for e in history.of(kinds.NODE)
        if e.get("phase") == "told"
    }
    unfed -= {event["by"] for event in history.of(kinds.DELIVERED)}
    stored = [
        event for event in history.of(kinds.STORED) if event["hop"] == Hop.SINK and event["visible"]
    ]
    return {
        SENT_UNFED: {
            event["record"] for event in stored if str(event.get("attempt")).split(".")[0] in unfed
        }
    }
