"""Proofs of what an application was doing when it was killed or told to end, from the history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from harness.model import events as kinds
from harness.model.events import NodePhase, RulePhase
from harness.model.sign import Sign
from harness.model.states import Hop

if TYPE_CHECKING:
    from harness.judge.proof import ProofContext
    from harness.model.history import History

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

    def trouble(self, course: ProofContext) -> str | None:
        """Say why this is not proved, or return ``None``."""
        deaths = [event.t for event in course.killed]
        rules = [event for event in course.history.of(kinds.Rule) if event.rule == RESTORE]
        asked = [event.t for event in rules if event.phase == RulePhase.HIT]
        if not any(first < at < second for at in asked for first in deaths for second in deaths):
            return "no instance was killed while it restored its state"
        if not any(event.phase == RulePhase.DISCARDED for event in rules):
            return "the wire did not discard the changelog's answer to the instance"
        return None


@dataclass(frozen=True, slots=True)
class SentUnfed:
    """Between the two times it was told to end, the application was given no record and sent the
    target from its store.
    """

    name: ClassVar[str] = "sent-unfed"

    def trouble(self, course: ProofContext) -> str | None:
        """Say why this is not proved, or return ``None``."""
        told = [e for e in course.history.of(kinds.Node) if e.phase == NodePhase.TOLD]
        if len(told) != 2:  # noqa: PLR2004 - as the fault does it
            return f"the application was told to end {len(told)} times, not twice"
        first, second = map(_writer, told)
        if any(event.by == second for event in course.history.of(kinds.Delivered)):
            return "the application was given a record between its two ends"
        sent = [
            (event.t, event.attempt)
            for event in course.history.of(kinds.Sent)
            if event.record == course.plan.target and event.attempt
        ]
        if any(attempt.startswith(f"{first}.") for _, attempt in sent):
            return "the target was sent before the application was told to end"
        return (
            None
            if any(t < told[1].t and attempt.startswith(f"{second}.") for t, attempt in sent)
            else "the application did not send the target between its two ends"
        )


def _writer(event: kinds.Node) -> str:
    """Return the name under which an incarnation writes into the history."""
    return f"{event.node}-{event.incarnation}"


def unfed_signs(history: History) -> dict[Sign, set[str]]:
    """Return the records with a committed result from an incarnation that was given no record until
    it was told to end.
    """
    unfed = {_writer(e) for e in history.of(kinds.Node) if e.phase == NodePhase.TOLD}
    unfed -= {event.by for event in history.of(kinds.Delivered)}
    stored = [
        event for event in history.of(kinds.Stored) if event.hop == Hop.SINK and event.visible
    ]
    return {
        SENT_UNFED: {
            event.record
            for event in stored
            if event.record is not None and str(event.attempt).split(".")[0] in unfed
        }
    }
