"""Proof that the wire refused a request in the broker's name: the client got the error, and it fits
what the broker did.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from harness.model import events as kinds
from harness.model.events import Direction, RulePhase
from harness.model.sign import Sign

if TYPE_CHECKING:
    from harness.judge.proof import ProofContext
    from harness.model.history import History

ASKED_ANEW: Final = Sign(
    "asked-anew",
    "the client was refused in the broker's name at this record, and asked the same again",
)
"""The client repeated a refused request. A request that names no record counts for each record at
which the rule was hit.
"""


@dataclass(frozen=True, slots=True)
class Answered:
    """The wire refused ``times`` requests with ``error``, and the client got each refusal.

    The broker never got these requests. With ``forward`` it got and granted each of them, and the
    wire swallowed its answer.
    """

    name: ClassVar[str] = "answered"

    error: str
    forward: bool = False
    times: int = 1

    def trouble(self, course: ProofContext) -> str | None:
        """Say which refusal did not reach the client, or does not fit what the broker did."""
        rules = list(course.history.of(kinds.Rule))
        hits = [
            event for event in rules if event.phase == RulePhase.HIT and event.action == "answer"
        ]
        given = {_request(event): event for event in rules if event.phase == RulePhase.ANSWERED}
        said = {
            _request(event): event
            for event in course.history.of(kinds.Frame)
            if event.dir == Direction.RESPONSE
        }
        if len(hits) < self.times:
            return (
                f"the wire's rule met {len(hits)} requests to refuse with {self.error}, and "
                f"{self.times} were planned"
            )
        return next(
            (
                bad
                for hit in hits
                if (bad := self._bad(given.get(_request(hit)), said.get(_request(hit))))
            ),
            None,
        )

    def _bad(self, given: kinds.Rule | None, said: kinds.Frame | None) -> str | None:
        if given is None or given.error != self.error or given.forward is not self.forward:
            return f"the wire did not answer a request with {self.error}, as its rule says"
        if not given.reached:
            return f"the refusal with {self.error} did not reach the client"
        if not self.forward:
            return (
                None
                if said is None
                else (
                    f"the wire refused a request with {self.error}, but the broker got it all "
                    "the same"
                )
            )
        if said is not None and given.said is None:
            return (
                f"the wire refused a forwarded request with {self.error}, but could not read the "
                "broker's own answer to it"
            )
        wrong = "never answered it" if said is None else "refused it as well" if given.said else ""
        return (
            f"the wire refused a forwarded request with {self.error}, but the broker {wrong}"
            if wrong
            else None
        )


def _request(event: kinds.OfFrame) -> tuple[object, object]:
    return event.conn, event.corr


def answer_signs(history: History) -> dict[Sign, set[str]]:
    """Return the records whose request was refused and sent again.

    A request that names no record counts for every record at which the rule was hit.
    """
    rules = list(history.of(kinds.Rule))
    marked = {
        record for event in rules if event.phase == RulePhase.HIT for record in event.records or ()
    }
    asked = [event for event in history.of(kinds.Frame) if event.dir == Direction.REQUEST]
    found: set[str] = set()
    for event in rules:
        if (
            event.phase == RulePhase.ANSWERED
            and event.reached
            and any(_is_again(event, each) for each in asked)
        ):
            found |= set(event.records or marked)
    return {ASKED_ANEW: found}


def _is_again(refused: kinds.Rule, asked: kinds.Frame) -> bool:
    """Whether a request is of the same kind and client as one that was refused, and
    came after it.
    """
    same = (refused.api, refused.role, refused.client) == (asked.api, asked.role, asked.client)
    return same and _request(refused) != _request(asked) and asked.t > refused.t
