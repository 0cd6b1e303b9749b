"""Faults that lie: each breaks one thing on purpose that the judge must notice."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import needs_of
from harness.model.scenario import Evidence, Role
from harness.run.controls import WireControls

if TYPE_CHECKING:
    from harness.controls import Controls
    from harness.faults import Kill
    from harness.model.semantics import Semantic


@dataclass(frozen=True)
class Disarmed:
    """Promises a kill and arms nothing, under one semantic or under all."""

    promise: Kill
    under: Semantic | None = None
    id: ClassVar[str] = "disarmed"

    def evidence(self) -> Evidence:
        """What the kill would have shown."""
        return self.promise.evidence()

    def needs(self) -> tuple[type, ...]:
        """What the promise asks for."""
        return needs_of(self.promise)

    def arm(self, controls: Controls) -> None:
        """Arm nothing, or under another semantic what was promised."""
        if self._keeps_word(controls):
            self.promise.arm(controls)

    def inject(self, controls: Controls) -> None:
        """Do nothing, or under another semantic what was promised."""
        if self._keeps_word(controls):
            self.promise.inject(controls)

    def _keeps_word(self, controls: Controls) -> bool:
        return (
            self.under is not None
            and isinstance(controls, WireControls)
            and controls.cell.semantic is not self.under
        )


@dataclass(frozen=True)
class WrongVictim:
    """Promises to kill the victims of ``promise`` and kills ``instead``."""

    promise: Kill
    instead: Role
    id: ClassVar[str] = "wrong-victim"

    def evidence(self) -> Evidence:
        """What the promised kill would have shown."""
        return self.promise.evidence()

    def needs(self) -> tuple[type, ...]:
        """What the promise asks for."""
        return needs_of(self.promise)

    def arm(self, controls: Controls) -> None:
        """Arm the promised trigger."""
        self.promise.arm(controls)

    def inject(self, controls: Controls) -> None:
        """Kill somebody else."""
        replace(self.promise, victims=(self.instead,)).inject(controls)


@dataclass(frozen=True)
class StopsReading:
    """The consumer is stopped for ever, and the fault says that it is healed."""

    id: ClassVar[str] = "stops-reading"

    def evidence(self) -> Evidence:
        """Nothing: for the judge there was no fault."""
        return Evidence(trigger="none")

    def arm(self, controls: Controls) -> None:
        """Stop the consumer before there is load."""
        controls.target(Role.CONSUMER).pause()

    def inject(self, controls: Controls) -> None:
        """Leave it stopped."""
        controls.say("healed")


@dataclass(frozen=True)
class Shoots:
    """Kills a consumer without having announced any fault."""

    id: ClassVar[str] = "shoots"

    def evidence(self) -> Evidence:
        """Nothing: for the judge there was no fault."""
        return Evidence(trigger="none")

    def arm(self, controls: Controls) -> None:
        """Kill and restart the consumer before there is load."""
        consumer = controls.target(Role.CONSUMER)
        consumer.kill()
        consumer.restart()

    def inject(self, controls: Controls) -> None:
        """Do nothing more."""
