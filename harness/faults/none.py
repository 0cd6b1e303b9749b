"""No fault: the baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.model.scenario import Evidence

if TYPE_CHECKING:
    from harness.controls import Controls


@dataclass(frozen=True, slots=True)
class NoFault:
    """No fault: the pipeline runs undisturbed."""

    id: ClassVar[str] = "none"

    watched: bool = False
    """Whether a tracer writes down the durable writes of the reading stages, for a dry run; it
    slows them down.
    """

    def evidence(self) -> Evidence:
        """Return what the history must show: nothing."""
        return Evidence(trigger="none")

    def arm(self, controls: Controls) -> None:
        """Arm nothing."""

    def inject(self, controls: Controls) -> None:
        """Do nothing."""
