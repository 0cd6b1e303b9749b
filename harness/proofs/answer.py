"""Proof that the wire refused a request in the broker's name: the client got the error, and it fits
what the broker did.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from harness.model import events as kinds
from harness.model.sign import Sign

if TYPE_CHECKING:
    from harness.judge.proof import Course
    from harness.model.history import Event, History

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

    def trouble(self, course: Course) -> str | None:
        """Say which refusal did not reach the client, or does not fit what the broker did."""
        rules = list(course.history.of(kinds.RULE))
        hits = [
            event
            for event in rules
            if event.get("phase") == "hit" and event.get("action") == "answer"
        ]
        given = {_request(event): event for event in rules if event.get("phase") == "answered"}
        said = {
            _request(event): event
            for event in course.history.of(kinds.FRAME)
            if event.get("dir") == "response"
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

    def _bad(self, given: Event | None, said: Event | None) -> str | None:
        if (
            given is None
            or given.get("error") != self.error
            or given.get("forward") is not self.forward
        ):
            return f"the wire did not answer a request with {self.error}, as its rule says"
        if not given.get("reached"):
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
        if said is not None and given.get("said") is None:
            return (
                f"the wire refused a forwarded request with {self.error}, but could not read the "
                "broker's own answer to it"
            )
        wrong = (
            "never answered it"
            if said is None
            else "refused it as well"
            if given.get("said")
            else ""
        )
        return (
            f"the wire refused a forwarded request with {self.error}, but the broker {wrong}"
            if wrong
            else None
        )


def _request(event: Event) -> tuple[object, object]:
    return event.get("conn"), event.get("corr")


def answer_signs(history: History) -> dict[Sign, set[str]]:
    """Return the records whose request was refused and sent again.

    A request that names no record counts for every record at which the rule was hit.
    """
    rules = list(history.of(kinds.RULE))
    marked = {
        record
        for event in rules
        if event.get("phase") == "hit"
        for record in event.get("records") or ()
    }
    asked = [event for event in history.of(kinds.FRAME) if event.get("dir") == "request"]
    found: set[str] = set()
    for event in rules:
        if (
            event.get("phase") == "answered"
            and event.get("reached")
            and any(_is_again(event, each) for each in asked)
        ):
            found |= set(event.get("records") or marked)
    return {ASKED_ANEW: found}


def _is_again(refused: Event, asked: Event) -> bool:
    """Whether a request is of the same kind and client as one that was refused, and
    came after it.
    """
    same = all(refused.get(name) == asked.get(name) for name in ("api", "role", "client"))
    return same and _request(refused) != _request(asked) and asked["t"] > refused["t"]
