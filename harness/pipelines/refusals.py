"""Refusals that a declaration names: a request of a stage is refused in the broker's name, by an error of the stage's choice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from harness.controls import OnWire
from harness.faults import Answer
from harness.model.scenario import Role
from harness.pipelines.refusing import DeclarationError
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Direction

DONE = "done"
"""The third word of a refusal behind which what was asked is done."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error for a step. ``done``: the request arrives all the same, and what the broker says of it is swallowed."""

    step: Api
    error: str
    done: bool = False

    @classmethod
    def read(cls, text: str) -> Self:
        """Read ``"Produce NOT_ENOUGH_REPLICAS"`` or ``"Produce REQUEST_TIMED_OUT done"``.

        Raises:
            DeclarationError: there is no such request, or a broker never refuses it so.
        """
        step, error, *rest = text.split() if len(text.split()) > 1 else ("", "")
        if not step or rest not in ([], [DONE]):
            raise DeclarationError(f"refusals: {text!r}: write a step and an error, and perhaps {DONE}")
        found = next((api for api in Api if api.label == step), None)
        if found is None or not found.errors:
            raise DeclarationError(f"refusals: {text!r}: there are: {', '.join(api.label for api in Api if api.errors)}")
        if error not in found.errors:
            raise DeclarationError(f"refusals: {text!r}: a {step} is refused by: {', '.join(found.errors)}")
        if rest and not found.errors[error]:
            raise DeclarationError(f"refusals: {text!r}: {error} says that a {step} is not done")
        return cls(found, error, bool(rest))

    @property
    def name(self) -> str:
        """How its failure point is called, behind the stage's role."""
        words = [self.step.label, "refused", self.error.replace("_", "-"), *([DONE] if self.done else ())]
        return "-".join(words).lower()

    def fault(self, role: Role) -> Answer:
        """Return what is done: to the request about the record, or to the first one behind it."""
        way = Direction.REQUEST
        if "record" in self.step.selects(way):
            return Answer(OnWire(role, self.step, way), self.error, forward=self.done)
        given = OnWire(role, Api.PRODUCE if role is Role.PRODUCER else Api.FETCH, Direction.RESPONSE)
        return Answer(OnWire(role, self.step, way, since=given), self.error, forward=self.done)

    def because(self, role: Role) -> str:
        """Say what happens."""
        which = "that is about the record" if "record" in self.step.selects(Direction.REQUEST) else "behind the record"
        fate = "The broker has done what it asks all the same" if self.done else "The broker never sees it"
        return f"The {role}'s first {self.step.label} request {which} is refused by {self.error}, in the broker's name. {fate}."
