"""Proof of a refusal in the broker's name: the client got it, and it was true of what the broker had got."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from harness.model import events as kinds
from harness.model.sign import Sign

if TYPE_CHECKING:
    from harness.judge.proof import Course
    from harness.model.history import Event, History

ASKED_ANEW: Final = Sign("asked-anew", "the client was refused in the broker's name at this record, and asked the same again")
"""Requests that count for every record: it is not known for which record they were sent again."""


@dataclass(frozen=True, slots=True)
class Answered:
    """``times`` requests were refused by ``error``, and the client was told so.

    The broker has answered none of them, for it never got one. With ``forward`` it got and granted each, and its answer was
    swallowed.
    """

    name: ClassVar[str] = "answered"

    error: str
    forward: bool = False
    times: int = 1

    def trouble(self, course: Course) -> str | None:
        """Say which refusal did not reach the client, or was not true."""
        rules = list(course.history.of(kinds.RULE))
        hits = [event for event in rules if event.get("phase") == "hit" and event.get("action") == "answer"]
        given = {_request(event): event for event in rules if event.get("phase") == "answered"}
        said = {_request(event): event for event in course.history.of(kinds.FRAME) if event.get("dir") == "response"}
        if len(hits) < self.times:
            return f"{len(hits)} requests were to be refused by {self.error}, not {self.times}"
        return next((bad for hit in hits if (bad := self._bad(given.get(_request(hit)), said.get(_request(hit))))), None)

    def _bad(self, given: Event | None, said: Event | None) -> str | None:
        if given is None or given.get("error") != self.error or given.get("forward") is not self.forward:
            return f"a request was to be refused by {self.error}, and its client was not told so"
        if not given.get("reached"):
            return f"the refusal by {self.error} did not reach the client"
        if not self.forward:
            return None if said is None else f"a request was refused by {self.error}, and the broker had got it"
        if said is not None and given.get("said") is None:
            return f"a request was refused by {self.error} as if it was done, and nobody has read what the broker said"
        wrong = "never had it" if said is None else "had refused it" if given.get("said") else ""
        return f"a request was refused by {self.error} as if it was done, and the broker {wrong}" if wrong else None


def _request(event: Event) -> tuple[object, object]:
    return event.get("conn"), event.get("corr")


def answer_signs(history: History) -> dict[Sign, set[str]]:
    """Return the records whose request was refused and sent again; for a request without a record, those it is counted from."""
    rules = list(history.of(kinds.RULE))
    marked = {record for event in rules if event.get("phase") == "hit" for record in event.get("records") or ()}
    asked = [event for event in history.of(kinds.FRAME) if event.get("dir") == "request"]
    found: set[str] = set()
    for event in rules:
        if event.get("phase") == "answered" and event.get("reached") and any(_is_again(event, each) for each in asked):
            found |= set(event.get("records") or marked)
    return {ASKED_ANEW: found}


def _is_again(refused: Event, asked: Event) -> bool:
    """Whether a request is of the same kind and client as one that was refused, and came after it."""
    same = all(refused.get(name) == asked.get(name) for name in ("api", "role", "client"))
    return same and _request(refused) != _request(asked) and asked["t"] > refused["t"]
