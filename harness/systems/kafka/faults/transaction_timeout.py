"""TransactionTimeout: a pause that is longer than the transaction time-out, so the coordinator
aborts the transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import Supervision, Transactions
from harness.faults.triggers import AtTrigger, stop_at
from harness.model.scenario import Evidence
from harness.wire.rules import FreezeScope, How

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire


@dataclass(frozen=True, slots=True)
class TransactionTimeout(AtTrigger):
    """Pause the process at ``at`` until the coordinator has aborted its transaction; then let it go
    on.

    If its client then reports an error the process ends, and its supervisor starts it again.
    """

    id: ClassVar[str] = "transaction-timeout"
    abilities: ClassVar[tuple[type, ...]] = (Transactions, Supervision)
    freezes: ClassVar[FreezeScope | None] = FreezeScope.CLIENT

    at: OnWire

    def evidence(self) -> Evidence:
        """Return what the history must show: the rule was hit at the target, and the process was
        paused.
        """
        return Evidence("rule", paused=(self.at.role,), at_target=not self.at.offset)

    def inject(self, controls: Controls) -> None:
        """Pause the process, wait for the abort, resume it, and restart it if it ends."""
        sleeper, hold = stop_at(controls, self.at)
        controls.ability(Transactions).await_aborted(sleeper)
        sleeper.resume()
        controls.resolve(hold, How.RELEASE)
        controls.ability(Supervision).supervise(sleeper)
        controls.say("healed")
