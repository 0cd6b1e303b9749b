"""Network: from an exact record on, the network between a client and its broker is bad; then it is
mended.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import BadNetwork, Ledger, Membership
from harness.faults.triggers import AtTrigger, rule_at
from harness.model.scenario import Evidence
from harness.proofs.network import Effect, NetworkBad
from harness.wire.rules import Action, FreezeScope, How, Rule

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire
    from harness.model.scenario import Role
    from harness.services.toxiproxy import Toxic


class Until(StrEnum):
    """When the network is mended: after an effect, not after a fixed time."""

    GAVE_UP = "gave-up"
    """The client has closed a connection."""
    TOLD = "told"
    """The program was told that the outcome of the target is unknown."""
    CUT = "cut"
    """``limit`` connections were ended from the broker's side of the wire."""
    WAITED = "waited"
    """A request has waited ``waits_s`` for its answer."""
    EXPELLED = "expelled"
    """The consumer group has removed the client."""
    EXHAUSTED = "exhausted"
    """The source is exhausted: the program has taken every record."""
    SETTLED = "settled"
    """The source is exhausted, and every acknowledged record is recorded."""


@dataclass(frozen=True, slots=True)
class Network(AtTrigger):
    """At ``at`` the wire holds the frame, adds ``toxics`` to the network, and releases the frame;
    they stay until ``until``.

    ``effect`` and ``limit`` say what the wire must have measured (see
    :class:`~harness.proofs.network.Effect`). All of this happens ``times`` times, each time at the
    next frame that ``at`` describes (flapping). ``waits_s``: seconds.
    """

    id: ClassVar[str] = "network"

    at: OnWire
    toxics: tuple[Toxic, ...]
    until: Until
    effect: Effect
    limit: float = 0.0
    times: int = 1
    waits_s: float = 0.0
    also: tuple[Role, ...] = ()
    """Further roles, besides that of ``at``, whose network is made bad."""

    def __post_init__(self) -> None:
        if not self.toxics or self.times < 1:
            raise ValueError("a network fault needs at least one toxic, and times of at least 1")
        if (self.until is Until.WAITED) != (self.waits_s > 0):
            raise ValueError("waits_s must be above 0 for Until.WAITED, and left out otherwise")

    @property
    def roles(self) -> tuple[Role, ...]:
        """The roles whose network is made bad."""
        return (self.at.role, *self.also)

    def evidence(self) -> Evidence:
        """Return what the history must show.

        The rule was hit at the target, nobody died, and the bad network had its effect.
        """
        need = NetworkBad(tuple(map(str, self.roles)), self.effect, self.limit, self.times)
        return Evidence("rule", at_target=not self.at.offset, proofs=(need,))

    def needs(self) -> tuple[type, ...]:
        """Return the abilities that it needs.

        The system must have a proxy for bad networks, and must be able to see ``until``.
        """
        until = {Until.TOLD: (Ledger,), Until.EXPELLED: (Membership,)}
        return (BadNetwork, *until.get(self.until, ()))

    def _rule(self) -> Rule:
        """Return the rule."""
        return rule_at(self.at, Action.HOLD, limit=self.times, freeze=FreezeScope.CLIENT)

    def inject(self, controls: Controls) -> None:
        """Make the network bad, wait for ``until``, mend it; ``times`` times."""
        for number in range(self.times):
            fired = controls.await_fired(self.at)
            if not number:
                controls.say("fired", record=fired.record, node=fired.node)
            controls.ability(BadNetwork).worsen(self.roles, self.toxics)
            controls.resolve(fired.hold, How.RELEASE)
            controls.say("applied", node=fired.node)
            self._await_end(controls)
            controls.ability(BadNetwork).mend(self.roles, self.toxics)
        controls.say("healed")

    def _await_end(self, controls: Controls) -> None:
        role, network = self.at.role, controls.ability(BadNetwork)
        match self.until:
            case Until.GAVE_UP:
                network.await_traffic(
                    role, lambda seen: seen.left >= 1, f"the {role} to give up a connection"
                )
            case Until.CUT:
                network.await_traffic(
                    role,
                    lambda seen: seen.lost >= self.limit,
                    f"{self.limit:g} connections to be cut",
                )
            case Until.WAITED:
                network.await_traffic(
                    role, lambda seen: seen.longest_s >= self.waits_s, "a request to wait in vain"
                )
            case Until.TOLD:
                controls.ability(Ledger).await_told_unknown()
            case Until.EXPELLED:
                controls.ability(Membership).await_expired(role)
            case Until.EXHAUSTED:
                controls.await_exhausted()
            case Until.SETTLED:
                controls.await_exhausted()
                controls.settle()
