"""TopicAppears: a reader is started before its topic exists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.abilities import NewTopic
from harness.faults.triggers import AtTrigger, await_fault, rule_at
from harness.model.scenario import Evidence
from harness.proofs.appeared import Appeared
from harness.wire.rules import Action, Rule

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire
    from harness.model.scenario import Role


@dataclass(frozen=True, slots=True)
class TopicAppears(AtTrigger):
    """The stage ``reader`` is started while its topic does not exist, and is told so. The topic is
    created, and has records before the reader hears of it. The frame ``at`` shows that the sender
    has found it, too. Nobody is hurt.
    """

    id: ClassVar[str] = "topic-appears"
    abilities: ClassVar[tuple[type, ...]] = (NewTopic,)

    at: OnWire
    reader: Role

    def __post_init__(self) -> None:
        if self.at.role is self.reader:
            raise ValueError(f"at must be a frame of another stage than the {self.reader}")

    def evidence(self) -> Evidence:
        """Return what the history must show: the rule was hit at the target, and the topic appeared
        behind the reader's start.
        """
        return Evidence("rule", proofs=(Appeared(str(self.reader)),))

    def _rule(self) -> Rule:
        """Return the rule. It does nothing to its frame."""
        return rule_at(self.at, Action.MARK)

    def inject(self, controls: Controls) -> None:
        """Start the reader, create the topic, wait until the target is there."""
        controls.ability(NewTopic).appear(self.reader)
        await_fault(controls, self.at)
        controls.say("healed")
