"""Proof that a stage's standard input ended while a fault lasted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.model import events as kinds

if TYPE_CHECKING:
    from harness.judge.proof import ProofContext


@dataclass(frozen=True, slots=True)
class InputEnded:
    """A stage's standard input was closed after the last record, between the fault and
    its healing.
    """

    name: ClassVar[str] = "input-ended"

    def trouble(self, course: ProofContext) -> str | None:
        """Say that the input ended before or after the fault, or not at all, or without all
        records.
        """
        fired, healed = course.fired_at or 0, course.healed_at
        ends = list(course.history.of(kinds.InputEnded))
        meanwhile = [e for e in ends if e.t > fired and (healed is None or e.t < healed)]
        if not meanwhile:
            when = f": it ended {'before' if ends[0].t <= fired else 'later'}" if ends else ""
            return f"the fault fired, but the input did not end while it lasted{when}"
        given = meanwhile[0].given
        return (
            None
            if given == course.plan.offered
            else f"the input ended after {given} of {course.plan.offered} records"
        )
