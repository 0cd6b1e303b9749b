"""In turn: the same fault at several records of a run, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from harness.abilities import needs_of
from harness.model.events import FaultPhase
from harness.model.turns import NextTarget

if TYPE_CHECKING:
    from harness.controls import Controls, InjectableOnWire, OnWire
    from harness.model.scenario import Evidence

TARGETS: Final = 5
"""At how many records a fault strikes in turn, where nobody says otherwise."""


@dataclass(frozen=True, slots=True)
class InTurn:
    """``each`` strikes at as many records as the load has ``targets``, one after the other. It is
    armed for the next one when it is healed and everything offered until then is at rest.

    What each of them must show is judged by itself: see :mod:`harness.judge.windows`.
    """

    id: ClassVar[str] = "in-turn"

    each: InjectableOnWire
    targets: int = TARGETS

    def __post_init__(self) -> None:
        if self.targets < 2:  # noqa: PLR2004 - else it is the fault itself
            raise ValueError(f"targets: {self.targets}; a fault in turn needs two or more")
        if not self.each.at.at_target:
            raise ValueError("each: its frame must be about the target itself")

    @property
    def at(self) -> OnWire:
        """The trigger of each."""
        return self.each.at

    def evidence(self) -> Evidence:
        """Return what the history must show of each."""
        return self.each.evidence()

    def needs(self) -> tuple[type, ...]:
        """Return the abilities that it needs: those of each, and to aim at another record."""
        return (*needs_of(self.each), NextTarget)

    def arm(self, controls: Controls) -> None:
        """Arm the fault at the first record."""
        self._arm(controls, 0)

    def inject(self, controls: Controls) -> None:
        """Let the fault strike at one record after the other; stop where it does not strike.

        Raises:
            NotFiredError: it did not strike, or what was offered never came to rest.
        """
        self.each.inject(controls)
        for number in range(1, self.targets):
            controls.ability(NextTarget).await_rest()
            self._arm(controls, number)
            controls.ability(NextTarget).go_on()
            self.each.inject(controls)

    def _arm(self, controls: Controls, number: int) -> None:
        record = controls.ability(NextTarget).aim(number)
        controls.say(FaultPhase.AIMED, record=record, number=number)
        self.each.arm(controls)
