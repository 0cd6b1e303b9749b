"""Refusals that a declaration names: lostack answers a stage's request in the broker's name, with
the declared error.
"""

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
"""The third word of a refusal whose request the broker carries out all the same."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error for a step. ``done``: the request reaches the broker all the same, and the broker's
    answer is dropped.
    """

    step: Api
    error: str
    done: bool = False

    @classmethod
    def read(cls, text: str) -> Self:
        """Read ``"Produce NOT_ENOUGH_REPLICAS"`` or ``"Produce REQUEST_TIMED_OUT done"``.

        Raises:
            DeclarationError: there is no such request, or a broker never refuses it by this error.
        """
        step, error, *rest = text.split() if len(text.split()) > 1 else ("", "")
        if not step or rest not in ([], [DONE]):
            raise DeclarationError(
                f"refusals: {text!r}: write a request and an error, and optionally {DONE}"
            )
        found = next((api for api in Api if api.label == step), None)
        if found is None or not found.errors:
            raise DeclarationError(
                f"refusals: {text!r}: can be refused: "
                f"{', '.join(api.label for api in Api if api.errors)}"
            )
        if error not in found.errors:
            raise DeclarationError(
                f"refusals: {text!r}: a {step} can be refused by: {', '.join(found.errors)}"
            )
        if rest and not found.errors[error]:
            raise DeclarationError(
                f"refusals: {text!r}: {error} means that the {step} was not carried out: take "
                f"{DONE} away"
            )
        return cls(found, error, bool(rest))

    @property
    def name(self) -> str:
        """The name of its failure point, after the stage's role."""
        words = [
            self.step.label,
            "refused",
            self.error.replace("_", "-"),
            *([DONE] if self.done else ()),
        ]
        return "-".join(words).lower()

    def fault(self, role: Role) -> Answer:
        """Return the fault: it answers the request about the record, or the first such request
        after it.
        """
        way = Direction.REQUEST
        if "record" in self.step.selects(way):
            return Answer(OnWire(role, self.step, way), self.error, forward=self.done)
        given = OnWire(
            role, Api.PRODUCE if role is Role.PRODUCER else Api.FETCH, Direction.RESPONSE
        )
        return Answer(OnWire(role, self.step, way, since=given), self.error, forward=self.done)

    def because(self, role: Role) -> str:
        """Return the sentence that says what happens."""
        which = (
            "that is about the record"
            if "record" in self.step.selects(Direction.REQUEST)
            else "after the record"
        )
        fate = (
            "The broker carries out the request all the same"
            if self.done
            else "The broker never sees it"
        )
        return (
            f"The {role}'s first {self.step.label} request {which} is refused by {self.error}, "
            f"in the broker's name. {fate}."
        )
