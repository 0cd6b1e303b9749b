"""PartitionsAdded: a topic gets more partitions while records flow, and its producer learns of them
and goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import Partitions
from harness.controls import Stop
from harness.faults.triggers import AtTrigger, await_fault
from harness.model.scenario import Evidence, Role
from harness.proofs.growth import Grown
from harness.wire.rules import How

if TYPE_CHECKING:
    from harness.controls import Controls, InProgram


@dataclass(frozen=True, slots=True)
class PartitionsAdded(AtTrigger):
    """Stop the producer at ``at``, before it sends the target; add partitions once the earlier
    records are read.

    When the producer's client knows the new partitions the producer goes on, and the target goes
    into one of them. ``asleep``: this role is paused until the source is exhausted, so it finds the
    new partitions with records in them. ``shared_out``: the producer goes on only after the
    readers' group has assigned the new partitions.
    """

    id: ClassVar[str] = "partitions-added"
    abilities: ClassVar[tuple[type, ...]] = (Partitions,)
    stops: ClassVar[Stop] = Stop.HOLD

    at: InProgram
    asleep: Role | None = None
    shared_out: bool = False

    def __post_init__(self) -> None:
        if self.at.role is not Role.PRODUCER:
            raise ValueError(
                "at must be a failpoint of the producer, which puts the target into a new partition"
            )
        if self.asleep is not None and self.shared_out:
            raise ValueError(
                "give either asleep or shared_out: a paused reader cannot take part in assigning "
                "partitions"
            )

    def evidence(self) -> Evidence:
        """Return what the history must show as evidence of the fault.

        The failpoint was hit at the target, no process died, and the target is in an added
        partition.
        """
        return Evidence(
            "failpoint", paused=() if self.asleep is None else (self.asleep,), proofs=(Grown(),)
        )

    def inject(self, controls: Controls) -> None:
        """Let the readers read what is there, add partitions, then let the producer go on."""
        fired = await_fault(controls, self.at)
        controls.settle()
        sleeper = None if self.asleep is None else controls.target(self.asleep)
        if sleeper is not None:
            sleeper.pause()
        controls.ability(Partitions).add()
        controls.ability(Partitions).await_known(controls.target(self.at.role, fired.node))
        if self.shared_out:
            controls.ability(Partitions).await_shared_out()
        controls.say("applied", node=fired.node)
        controls.resolve(fired.hold, How.RELEASE)
        if sleeper is not None:
            controls.await_exhausted()
            sleeper.resume()
        controls.say("healed")
