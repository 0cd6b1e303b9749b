"""TransactionTimeout: an outage that is longer than a transaction may take; its coordinator ends the transaction meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import Supervision, Transactions
from harness.faults.triggers import arm_stop, stop_at
from harness.model.scenario import Evidence
from harness.wire.rules import How

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire


@dataclass(frozen=True, slots=True)
class TransactionTimeout:
    """At ``at`` the process is stopped until the coordinator has aborted its transaction; then it goes on.

    Where its client tells it that it may not, it ends, and its supervisor starts it again.
    """

    id: ClassVar[str] = "transaction-timeout"

    at: OnWire

    def evidence(self) -> Evidence:
        """Return what the history must show: the rule was hit at the target, and the process was stopped."""
        return Evidence("rule", paused=(self.at.role,), at_target=not self.at.offset)

    def needs(self) -> tuple[type, ...]:
        """Return the abilities that it needs.

        A coordinator that aborts what is left open, and who ends by that is started again.
        """
        return (Transactions, Supervision)

    def arm(self, controls: Controls) -> None:
        """Arm the rule."""
        arm_stop(controls, self.at)
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Stop it, wait for the abort, wake it, start it again where it ends."""
        sleeper, hold = stop_at(controls, self.at)
        controls.ability(Transactions).await_aborted(sleeper)
        sleeper.resume()
        controls.resolve(hold, How.RELEASE)
        controls.ability(Supervision).supervise(sleeper)
        controls.say("healed")
