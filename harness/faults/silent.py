"""Silent: a peer says nothing more on a living connection, for longer than its client waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import GivingUp
from harness.faults.triggers import AtTrigger, await_fault, rule_at
from harness.model.scenario import Evidence
from harness.proofs.silence import RULE, FellSilent
from harness.wire.rules import Action, After, Direction, How

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire
    from harness.wire.rules import Rule


@dataclass(frozen=True, slots=True)
class Silent(AtTrigger):
    """From the frame ``at`` on, nothing arrives in its direction of its connection, which lives on.

    The silence lasts until the client gives up: it closes the connection, or asks the same again
    over another one. A request that fell silent never arrives. An answer arrives late if its
    connection still lives then: when the client has its second answer, and nobody waits for the
    first.
    """

    id: ClassVar[str] = "silent"
    abilities: ClassVar[tuple[type, ...]] = (GivingUp,)

    at: OnWire

    def evidence(self) -> Evidence:
        """Return what the history must show: the rule was hit at the target, and the silence lasted
        for longer than the client waits; nobody died.
        """
        return Evidence(
            "rule",
            at_target=self.at.at_target,
            approached=self.at.since is not None,
            proofs=(FellSilent(),),
        )

    def _rule(self) -> Rule:
        """Return the rule: an answer is held, for it may come late; a request falls into a black
        hole.
        """
        if self.at.direction is Direction.RESPONSE:
            return rule_at(self.at, Action.HOLD, RULE)
        return rule_at(self.at, Action.DROP, RULE, after=After.BLACK_HOLE)

    def inject(self, controls: Controls) -> None:
        """Wait until the client has given up; then let a held answer go, if it can still arrive."""
        fired = await_fault(controls, self.at)
        controls.say("applied", node=fired.node)
        lives = controls.ability(GivingUp).await_given_up()
        controls.resolve(fired.hold, How.RELEASE if lives else How.DISCARD)
        controls.say("healed")
