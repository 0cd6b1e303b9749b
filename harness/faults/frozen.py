"""Frozen: a broker stands still for longer than its client waits, and goes on as if nothing had
happened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import GivingUp
from harness.faults.triggers import AtTrigger, await_fault, rule_at
from harness.model.scenario import Evidence, Role
from harness.proofs.silence import RULE, FellSilent, ReachedFrozen
from harness.wire.rules import Action, How, Rule

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire


@dataclass(frozen=True, slots=True)
class Frozen(AtTrigger):
    """At ``at`` the broker is stopped (SIGSTOP), and the request goes on to it. When the client has
    given up, the broker is woken (SIGCONT): it does what it was asked, and nobody waits for that.
    Programs that end meanwhile are started again behind it.
    """

    id: ClassVar[str] = "frozen"
    abilities: ClassVar[tuple[type, ...]] = (GivingUp,)

    at: OnWire

    def evidence(self) -> Evidence:
        """Return what the history must show: the rule was hit at the target, the broker was stopped
        and woke up, it had the request meanwhile, and that took longer than the client waits.
        """
        proofs = (FellSilent(), ReachedFrozen())
        return Evidence("rule", paused=(Role.BROKER,), proofs=proofs)

    def _rule(self) -> Rule:
        """Return the rule."""
        return rule_at(self.at, Action.HOLD, RULE)

    def inject(self, controls: Controls) -> None:
        """Stop the broker, let the request go, wake the broker when the client has given up."""
        fired = await_fault(controls, self.at)
        broker = controls.target(Role.BROKER)
        try:
            broker.pause()
            controls.say("applied", node=broker.name)
            controls.resolve(fired.hold, How.RELEASE)
            controls.ability(GivingUp).await_given_up(supervised=False)
        finally:
            broker.resume()
        controls.say("healed")
