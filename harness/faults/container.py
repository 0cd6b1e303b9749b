"""ContainerFault: a fault that only a container can have, applied at an exact place and healed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import Containers
from harness.faults.triggers import AtTrigger, await_fault, rule_at
from harness.model.harms import Harm
from harness.model.scenario import Evidence, Role
from harness.proofs.engine import EngineReport, EngineSaid
from harness.proofs.forgotten import Forgot
from harness.wire.rules import Action, FreezeScope, How, Rule

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire


_SAID = {
    Harm.MEMORY: (EngineReport.OOM_KILLED,),
    Harm.CONTAINER: (EngineReport.NEW_CONTAINER,),
    Harm.VOLUME: (EngineReport.VOLUME_EMPTIED, EngineReport.NEW_CONTAINER),
    Harm.NETWORK: (EngineReport.DISCONNECTED, EngineReport.CONNECTED),
    Harm.DISK: (EngineReport.DISK_FULL, EngineReport.DISK_EMPTIED),
}
_NOT_KILLED = {Harm.NETWORK, Harm.DISK}


@dataclass(frozen=True, slots=True)
class ContainerFault(AtTrigger):
    """At ``at``, ``harm`` is done to the node of ``role``. The roles in ``besides`` are killed with
    it and restarted after it.
    """

    id: ClassVar[str] = "container"
    abilities: ClassVar[tuple[type, ...]] = (Containers,)

    at: OnWire
    harm: Harm
    role: Role
    besides: tuple[Role, ...] = ()

    def __post_init__(self) -> None:
        if self.harm is Harm.NETWORK and self.role is not self.at.role:
            raise ValueError(
                f"only the {self.at.role}, whose request is held, can be disconnected: make it "
                "the role"
            )

    def evidence(self) -> Evidence:
        """Return what the history must show.

        The rule was hit at the target, the victims died by SIGKILL or by themselves, and the engine
        reported the harm.
        """
        dies = () if self.harm in _NOT_KILLED else (self.role,)
        ended = (self.role,) if self.harm is Harm.DISK else ()
        forgets = self.harm is Harm.VOLUME
        said = EngineSaid(tuple(map(str, _SAID[self.harm])))
        return Evidence(
            "rule",
            killed=(*dies, *self.besides),
            ended=ended,
            forgotten=forgets,
            at_target=not self.at.offset,
            proofs=(said, Forgot()) if forgets else (said,),
        )

    def _rule(self) -> Rule:
        """Return the rule. When it fires, the wire freezes the victims."""
        scope = FreezeScope.NODE if self.role is Role.BROKER else FreezeScope.CLIENT
        return rule_at(self.at, Action.HOLD, freeze=scope)

    def inject(self, controls: Controls) -> None:
        """Apply the fault, release or discard what the wire holds, heal."""
        fired = await_fault(controls, self.at)
        others = [controls.target(role) for role in self.besides]
        struck = controls.ability(Containers).apply(self.harm, self.role)
        for other in others:
            other.kill()
        controls.say("applied", node=struck)
        # of a response: to a dead broker's client it never goes, to a client without a network it
        # goes in vain
        controls.resolve(fired.hold, How.RELEASE if self.harm is Harm.NETWORK else How.DISCARD)
        controls.ability(Containers).mend(self.harm, self.role)
        for other in others:
            other.restart()
        controls.say("healed")
