"""Proof that a reader's lock in a share group had expired before the reader went on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.model.events import FaultPhase
from harness.model.struck import first_at

if TYPE_CHECKING:
    from harness.judge.proof import ProofContext


@dataclass(frozen=True, slots=True)
class LockOutlasted:
    """The reader went on with the record only after its lock had expired."""

    name: ClassVar[str] = "lock-outlasted"

    def trouble(self, course: ProofContext) -> str | None:
        """Say that the reader went on before its lock had expired, or never."""
        lock_ms = course.plan.settings["consumer"]["share"]["lock_ms"]
        applied = first_at(course.history, FaultPhase.APPLIED)
        if course.fired_at is None or applied is None:
            return "the reader never went on"
        took_ms = (applied - course.fired_at) / 1e6
        return (
            None
            if took_ms >= lock_ms
            else f"the reader went on after {took_ms:.0f} ms, but its lock lasts {lock_ms} ms"
        )
