"""Answer: the wire refuses a request with a legal error, in the broker's name. The broker never
gets it, or grants it anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.faults.triggers import AtTrigger, await_fault, rule_at
from harness.model.scenario import Evidence
from harness.proofs.answer import Answered
from harness.wire.rules import Action, Rule

if TYPE_CHECKING:
    from harness.controls import Controls, OnWire


@dataclass(frozen=True, slots=True)
class Answer(AtTrigger):
    """The client gets ``error`` (its name in the protocol) for the request ``at`` and the next
    ones, ``times`` in all.

    The request never reaches the broker. With ``forward`` it does, and the wire swallows the
    broker's answer.

    Raises:
        RuleError: no broker refuses such a request with this error, or, with ``forward``, not one
            that has carried it out.
    """

    id: ClassVar[str] = "answer"

    at: OnWire
    error: str
    forward: bool = False
    times: int = 1

    def __post_init__(self) -> None:
        rule_at(self.at, Action.ANSWER, error=self.error, forward=self.forward, limit=self.times)

    def evidence(self) -> Evidence:
        """Return what the history must show: the rule was hit at the target, and the client was
        told so; nobody died.
        """
        told = Answered(self.error, forward=self.forward, times=self.times)
        return Evidence(
            "rule",
            at_target=not self.at.offset,
            approached=self.at.since is not None,
            proofs=(told,),
        )

    def _rule(self) -> Rule:
        """Return the rule."""
        return rule_at(
            self.at, Action.ANSWER, error=self.error, forward=self.forward, limit=self.times
        )

    def inject(self, controls: Controls) -> None:
        """Wait until the wire has refused ``times`` requests."""
        await_fault(controls, self.at)
        for _ in range(1, self.times):
            controls.await_fired(self.at)
        controls.say("healed")
