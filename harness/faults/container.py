"""ContainerFault: a fault that only a container can have, at an exact place, and how it is healed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import Containers, Harm
from harness.faults.triggers import await_fault, rule_at
from harness.model.scenario import Evidence, Role
from harness.proofs.engine import EngineSaid, Said
from harness.proofs.forgotten import Forgot
from harness.wire.rules import Action, FreezeScope, How

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire


_SAID = {
    Harm.MEMORY: (Said.OOM_KILLED,),
    Harm.CONTAINER: (Said.NEW_CONTAINER,),
    Harm.VOLUME: (Said.VOLUME_EMPTIED, Said.NEW_CONTAINER),
    Harm.NETWORK: (Said.DISCONNECTED, Said.CONNECTED),
    Harm.DISK: (Said.DISK_FULL, Said.DISK_EMPTIED),
}
_NOT_KILLED = {Harm.NETWORK, Harm.DISK}


@dataclass(frozen=True, slots=True)
class ContainerFault:
    """At ``at``: the harm falls on the node of ``role``; ``besides`` are killed with it, and come back after it."""

    id: ClassVar[str] = "container"

    at: OnWire
    harm: Harm
    role: Role
    besides: tuple[Role, ...] = ()

    def __post_init__(self) -> None:
        if self.harm is Harm.NETWORK and self.role is not self.at.role:
            raise ValueError("only a client of the broker is disconnected: the one whose request is held")

    def evidence(self) -> Evidence:
        """Return what the history must show.

        The rule was hit at the target, those who die died by SIGKILL or by themselves, and the engine said what it did.
        """
        dies = () if self.harm in _NOT_KILLED else (self.role,)
        ended = (self.role,) if self.harm is Harm.DISK else ()
        forgets = self.harm is Harm.VOLUME
        said = EngineSaid(tuple(map(str, _SAID[self.harm])))
        return Evidence("rule", killed=(*dies, *self.besides), ended=ended, forgotten=forgets, at_target=not self.at.offset,
                        proofs=(said, Forgot()) if forgets else (said,))  # fmt: skip

    def needs(self) -> tuple[type, ...]:
        """Only a container can have this fault."""
        return (Containers,)

    def arm(self, controls: Controls) -> None:
        """Arm the trigger. The nodes that are to die stand still from then on."""
        scope = FreezeScope.NODE if self.role is Role.BROKER else FreezeScope.CLIENT
        controls.arm(self.at, rule_at(self.at, Action.HOLD, freeze=scope))
        controls.say("armed")

    def inject(self, controls: Controls) -> None:
        """Apply the fault, release or discard what the wire holds, heal."""
        fired = await_fault(controls, self.at)
        others = [controls.target(role) for role in self.besides]
        struck = controls.ability(Containers).apply(self.harm, self.role)
        for other in others:
            other.kill()
        controls.say("applied", node=struck)
        # of a response: to a dead broker's client it never goes, to a client without a network it goes in vain
        controls.resolve(fired.hold, How.RELEASE if self.harm is Harm.NETWORK else How.DISCARD)
        controls.ability(Containers).mend(self.harm, self.role)
        for other in others:
            other.restart()
        controls.say("healed")
