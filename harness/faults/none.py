"""No fault: the baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.model.scenario import Evidence

if TYPE_CHECKING:
    from harness.controls import Controls


@dataclass(frozen=True, slots=True)
class NoFault:
    """Nothing is done."""

    id: ClassVar[str] = "none"

    watched: bool = False
    """The kernel's tracer writes down what the reading stages write durably, as a dry run wants it; it slows them down."""

    def evidence(self) -> Evidence:
        """Return no demand: nothing has to be shown."""
        return Evidence(trigger="none")

    def arm(self, controls: Controls) -> None:
        """Arm nothing."""

    def inject(self, controls: Controls) -> None:
        """Do nothing."""
