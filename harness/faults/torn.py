"""Torn: a request stops half-way, for longer than its client waits, and goes on then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import GivingUp
from harness.faults.triggers import AtTrigger, await_fault, rule_at
from harness.model.scenario import Evidence
from harness.proofs.silence import RULE, FellSilent, HalfWay
from harness.wire.rules import Action, How, Rule

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire


@dataclass(frozen=True, slots=True)
class Torn(AtTrigger):
    """Half of the request ``at`` goes on, and nothing more of its connection is read: its window
    closes, and what the client sends behind it stops in the client's own buffers.

    When the client has given the request up, all goes on: the broker has the whole of it late. A
    large request may be partly in its client's memory until then.
    """

    id: ClassVar[str] = "torn"
    abilities: ClassVar[tuple[type, ...]] = (GivingUp,)

    at: OnWire

    def evidence(self) -> Evidence:
        """Return what the history must show: the rule was hit at the target, half of the request
        went on, the client waited no longer, and the rest went on; nobody died.
        """
        return Evidence(
            "rule",
            at_target=self.at.at_target,
            approached=self.at.since is not None,
            proofs=(FellSilent(), HalfWay()),
        )

    def _rule(self) -> Rule:
        """Return the rule."""
        return rule_at(self.at, Action.HOLD, RULE, half=True)

    def inject(self, controls: Controls) -> None:
        """Wait until the client has given up; then let the rest go on."""
        fired = await_fault(controls, self.at)
        controls.say("applied", node=fired.node)
        controls.ability(GivingUp).await_given_up()
        controls.resolve(fired.hold, How.RELEASE)
        controls.say("healed")
