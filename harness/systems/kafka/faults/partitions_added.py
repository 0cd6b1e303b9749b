"""PartitionsAdded: a topic gets partitions while records flow; its producer learns of them, and goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import Partitions
from harness.controls import Stop
from harness.faults.triggers import await_fault
from harness.model.scenario import Evidence, Role
from harness.proofs.growth import Grown
from harness.wire.rules import How

if TYPE_CHECKING:
    from harness.controls import Controls, InProgram


@dataclass(frozen=True, slots=True)
class PartitionsAdded:
    """At ``at`` the producer stands with the target in hand; what is there is read; the topic gets partitions.

    When its client knows of them it goes on, and the target goes into a new one. ``asleep``: who is stopped meanwhile, until
    the source is exhausted, and so finds the new partitions with records in them. ``shared_out``: first, the group of those
    who read has shared the new partitions out.
    """

    id: ClassVar[str] = "partitions-added"

    at: InProgram
    asleep: Role | None = None
    shared_out: bool = False

    def __post_init__(self) -> None:
        if self.at.role is not Role.PRODUCER:
            raise ValueError("it is the producer who puts the target into a new partition: the failpoint must be its own")
        if self.asleep is not None and self.shared_out:
            raise ValueError("who is asleep takes no part in a group that gathers: either asleep or shared_out")

    def evidence(self) -> Evidence:
        """Return what the history must show.

        The failpoint was hit at the target, nobody died, and the target stands in a partition that was added.
        """
        return Evidence("failpoint", paused=() if self.asleep is None else (self.asleep,), proofs=(Grown(),))

    def needs(self) -> tuple[type, ...]:
        """Return the abilities that it needs: a topic that grows."""
        return (Partitions,)

    def arm(self, controls: Controls) -> None:
        """Arm the failpoint: only the program stands still there, its client goes on asking for metadata."""
        controls.arm(self.at, Stop.HOLD)
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Let the others read what is there, add partitions, let the producer go on."""
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
