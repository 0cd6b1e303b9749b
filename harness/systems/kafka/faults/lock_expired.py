"""LockExpired: a reader of a share group works on a record for longer than its lock lasts, and goes
on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import RecordLocks
from harness.controls import Stop
from harness.faults.triggers import AtTrigger, await_fault
from harness.model.scenario import Evidence
from harness.proofs.locks import LockOutlasted
from harness.wire.rules import How

if TYPE_CHECKING:
    from harness.controls import Controls, InProgram


@dataclass(frozen=True, slots=True)
class LockExpired(AtTrigger):
    """Keep the program busy at ``at`` until its lock has expired and other readers have done all
    the work.

    Its client lives on in the background.
    """

    id: ClassVar[str] = "lock-expired"
    abilities: ClassVar[tuple[type, ...]] = (RecordLocks,)
    stops: ClassVar[Stop] = Stop.HOLD

    at: InProgram

    def evidence(self) -> Evidence:
        """Return what the history must show as evidence of the fault.

        The failpoint was hit at the target, and the program went on after the lock had expired.
        """
        return Evidence("failpoint", proofs=(LockOutlasted(),))

    def inject(self, controls: Controls) -> None:
        """Wait until the lock has expired and other readers have done all the work; then let the
        program go on.
        """
        fired = await_fault(controls, self.at)
        controls.ability(RecordLocks).await_expired()
        controls.await_exhausted()
        controls.settle()
        controls.say("applied")
        controls.resolve(fired.hold, How.RELEASE)
        controls.ability(RecordLocks).await_gone_on(controls.target(self.at.role, fired.node))
        controls.say("healed")
