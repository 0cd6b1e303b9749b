"""Proof that a broker has lost its power, and the sign that its flushes protected a record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from harness.model import events as kinds
from harness.model.scenario import BROKERS
from harness.model.sign import Sign

if TYPE_CHECKING:
    from harness.judge.proof import ProofContext
    from harness.model.history import History

TOLD_TO_FLUSH: Final = Sign(
    "told-to-flush",
    (
        "when the power was lost, the broker had told the kernel to flush a file with this record, "
        "and the kernel had done so"
    ),
)


@dataclass(frozen=True, slots=True)
class PowerWent:
    """The files of each killed broker were made what the kernel was told to flush, after its
    death.
    """

    name: ClassVar[str] = "power-went"

    def trouble(self, course: ProofContext) -> str | None:
        """Name a killed broker whose power was not lost, or whose calls were not seen."""
        lost = {event.node: event for event in course.history.of(kinds.Power)}
        for killed in course.killed:
            if killed.role not in BROKERS:
                continue
            event = lost.get(killed.node)
            if event is None or event.t < killed.t:
                return f"the power of {killed.node} was not lost after its death"
            if not event.calls:
                return f"the tracer saw no call of {killed.node}"
        return None if lost else "no broker lost its power"


def power_signs(history: History) -> dict[Sign, set[str]]:
    """Return the records whose bytes the brokers had flushed when their power was lost."""
    found = (set(event.records) for event in history.of(kinds.Power))
    return {TOLD_TO_FLUSH: set().union(*found)}
