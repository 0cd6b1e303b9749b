"""A lock expires: a reader of a share group works on a record for longer than that is its own, and goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import RecordLocks
from harness.controls import Stop
from harness.faults.triggers import await_fault
from harness.model.scenario import Evidence
from harness.proofs.locks import LockOutlasted
from harness.wire.rules import How

if TYPE_CHECKING:
    from harness.controls import Controls, InProgram


@dataclass(frozen=True, slots=True)
class LockExpired:
    """At ``at`` the program is kept busy, while its client lives, until its lock is over and others have done all the work."""

    id: ClassVar[str] = "lock-expired"

    at: InProgram

    def evidence(self) -> Evidence:
        """Return what the history must show.

        The failpoint was hit at the target, and the program went on when the lock was over.
        """
        return Evidence("failpoint", proofs=(LockOutlasted(),))

    def needs(self) -> tuple[type, ...]:
        """Return the abilities that it needs: locks."""
        return (RecordLocks,)

    def arm(self, controls: Controls) -> None:
        """Arm the failpoint."""
        controls.arm(self.at, Stop.HOLD)
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Wait until its lock is over, and whoever is given the record then has done with it; let it go on."""
        fired = await_fault(controls, self.at)
        controls.ability(RecordLocks).await_expired()
        controls.await_exhausted()
        controls.settle()
        controls.say("applied")
        controls.resolve(fired.hold, How.RELEASE)
        controls.ability(RecordLocks).await_gone_on(controls.target(self.at.role, fired.node))
        controls.say("healed")
