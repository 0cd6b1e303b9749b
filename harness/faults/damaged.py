"""Damaged: the broker is killed, and one of its files is damaged before it starts again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import FilesAtRest
from harness.faults.triggers import AtTrigger, await_fault, rule_at
from harness.model.scenario import Evidence, Role
from harness.proofs.damage import FileDamaged
from harness.wire.rules import Action, FreezeScope, How, Rule

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire
    from harness.model.harms import Damage


@dataclass(frozen=True, slots=True)
class Damaged(AtTrigger):
    """At ``at``, kill the broker; discard the frame; damage the file that has a record; start the
    broker again.

    The record is the ``before``-th before the target in the source.
    """

    id: ClassVar[str] = "damaged"
    abilities: ClassVar[tuple[type, ...]] = (FilesAtRest,)

    at: OnWire
    damage: Damage
    before: int = 0

    def evidence(self) -> Evidence:
        """Return what the history must show: the rule was hit, the broker died by SIGKILL, and one
        of its files was damaged then.
        """
        return Evidence(
            "rule",
            killed=(Role.BROKER,),
            forgotten=True,
            at_target=not self.at.offset,
            proofs=(FileDamaged(),),
        )

    def _rule(self) -> Rule:
        """Return the rule."""
        scope = FreezeScope.CLIENT if self.at.offset else FreezeScope.NODE
        return rule_at(self.at, Action.HOLD, freeze=scope)

    def inject(self, controls: Controls) -> None:
        """Kill the broker, damage the file, start the broker again."""
        fired = await_fault(controls, self.at)
        broker = controls.target(Role.BROKER)
        broker.kill()
        controls.say("applied", node=broker.name)
        controls.resolve(fired.hold, How.DISCARD)
        controls.ability(FilesAtRest).damage(self.damage, self.before)
        broker.restart()
        controls.say("healed")
