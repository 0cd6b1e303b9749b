"""Proof that a topic was deleted and made anew while its reader was down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from harness.model import events as kinds
from harness.model.sign import Sign
from harness.model.struck import starts_of

if TYPE_CHECKING:
    from harness.judge.proof import ProofContext
    from harness.model.history import History

BEGAN_ANEW: Final = Sign(
    "began-anew",
    "its topic was deleted and made anew; the reader read each log of the new one from its start",
)


@dataclass(frozen=True, slots=True)
class MadeAnew:
    """When the ``reader`` was started again, its topic was a new one that had records; whatever the
    deleted one had was recorded.

    ``longer``: whether a log had to be longer than that of the deleted topic, or shorter; ``None``:
    either.
    """

    name: ClassVar[str] = "made-anew"

    reader: str
    longer: bool | None = None

    def trouble(self, course: ProofContext) -> str | None:
        """Say what of this the history does not show."""
        history = course.history
        made = next(iter(history.of(kinds.Remade)), None)
        if made is None:
            return f"not tried: the topic was not made anew, for the {self.reader} had not done all"
        recorded = {e.record for e in history.of(kinds.Recorded)}
        if gone := sorted(
            {
                e.record
                for e in history.of(kinds.Removed)
                if e.visible and e.record is not None and e.record not in recorded
            }
        ):
            return (
                f"not tried: {', '.join(gone)} went with the deleted topic, and the {self.reader} "
                "had not recorded it"
            )
        told = next(iter(history.of(kinds.Refilled)), None)
        back = starts_of(history, self.reader, made.t)
        if told is None or not any(told.ends.values()):
            return f"{made.topic}, made anew, had no record for the {self.reader}"
        if not back or min(back) < told.t:
            return f"the {self.reader} was not started again behind that"
        return None if self.longer is None else self._size_trouble(made, told)

    def _size_trouble(self, made: kinds.Remade, told: kinds.Refilled) -> str | None:
        """Say that no log is longer, or shorter, than that of the deleted topic was."""
        if any(
            is_as_long(made.ends.get(p, 0), told.ends[p], longer=self.longer) for p in told.ends
        ):
            return None
        than = "longer" if self.longer else "shorter"
        return (
            f"{made.topic}, made anew, had no log that was {than} than before when the "
            f"{self.reader} came back: {told.ends} after {made.ends}"
        )


def is_as_long(before: int, now: int, *, longer: bool | None) -> bool:
    """Say whether a log that ended at ``before`` and ends ``now`` is longer, or shorter, as it must
    be; both have had records. ``None``: the new one has some.
    """
    if longer is None:
        return now > 0
    return now > before > 0 if longer else before > now > 0


def made_anew_signs(history: History) -> dict[Sign, set[str]]:
    """Return the first records of the logs of a topic that was made anew, if the reader was given
    all of them.
    """
    made = next(iter(history.of(kinds.Remade)), None)
    if made is None:
        return {}
    sent = {e.partition for e in history.of(kinds.Sent) if e.topic == made.topic and e.t > made.t}
    first = {
        e.partition: e.record
        for e in history.of(kinds.Fetched)
        if e.topic == made.topic and e.reached and e.offset == 0
    }
    return {BEGAN_ANEW: set(first.values())} if sent and sent <= first.keys() else {}
