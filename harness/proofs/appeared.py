"""Proof that a topic was created after its reader had asked for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from harness.model import events as kinds
from harness.model.events import Direction
from harness.model.requests import Request
from harness.model.sign import Sign

if TYPE_CHECKING:
    from harness.judge.proof import ProofContext
    from harness.model.history import History

FOUND_IT: Final = Sign(
    "found-its-topic",
    "its topic was created after its reader had asked for it; the reader found it, and began at "
    "the start",
)


@dataclass(frozen=True, slots=True)
class Appeared:
    """The ``reader`` was told which topics there are before its topic was created, and asked for
    no record until the topic had some.
    """

    name: ClassVar[str] = "appeared"

    reader: str

    def trouble(self, course: ProofContext) -> str | None:
        """Say what of this the history does not show."""
        history = course.history
        made = next(iter(history.of(kinds.Appeared)), None)
        if made is None:
            return "not tried: the topic was not created late"
        frames = [e for e in history.of(kinds.Frame) if e.role == self.reader]
        if not any(
            e.t < made.t and (e.api, e.dir) == (Request.METADATA, Direction.RESPONSE)
            for e in frames
        ):
            return f"the {self.reader} was not told that {made.topic} is not there"
        filled = next(iter(history.of(kinds.Refilled)), None)
        if filled is None or not any(filled.ends.values()):
            return f"{made.topic} had no record when the {self.reader} heard of it"
        if any(e.api == Request.FETCH and e.t < filled.t for e in frames):
            return f"the {self.reader} heard of {made.topic} before it had a record"
        return None


def appeared_signs(history: History) -> dict[Sign, set[str]]:
    """Return the records that a reader was given of a topic that was created late, if the first of
    each partition that had some before it heard of the topic are among them.
    """
    made = next(iter(history.of(kinds.Appeared)), None)
    filled = next(iter(history.of(kinds.Refilled)), None)
    if made is None or filled is None:
        return {}
    given = [e for e in history.of(kinds.Fetched) if e.topic == made.topic and e.reached]
    begun = {str(e.partition) for e in given if e.offset == 0}
    had = {partition for partition, end in filled.ends.items() if end}
    return {FOUND_IT: {e.record for e in given}} if had and had <= begun else {}
