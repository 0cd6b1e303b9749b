"""Proof that partitions were added to the topic while the pipeline read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.model import events as kinds
from harness.model.states import Hop
from harness.model.struck import starts_of

if TYPE_CHECKING:
    from harness.judge.proof import ProofContext
    from harness.model.history import History


@dataclass(frozen=True, slots=True)
class Grown:
    """Partitions were added to the topic while it was read, and the target is in one of them."""

    name: ClassVar[str] = "grown"

    def trouble(self, course: ProofContext) -> str | None:
        """Say how the topic did not grow as planned."""
        return ungrown(course.history, course.plan.target)


@dataclass(frozen=True, slots=True)
class Filled:
    """Partitions were added to the topic, and had records when the ``reader`` was started again."""

    name: ClassVar[str] = "filled"

    reader: str

    def trouble(self, course: ProofContext) -> str | None:
        """Say that no partition was added, or that none had a record in time."""
        history, when = course.history, added(course.history)
        if not when:
            return "no partition was added to the topic"
        back = starts_of(history, self.reader, min(when.values()))
        sent = [e.t for e in history.of(kinds.Sent) if (e.topic, e.partition) in when]
        if not sent:
            return (
                "no record was sent to an added partition: whoever chooses partitions by itself "
                "never uses new ones"
            )
        if not back or min(sent) > min(back):
            return f"no added partition had a record when the {self.reader} came back"
        return None


def ungrown(history: History, target: str) -> str | None:
    """Say that no partition was added, that it was added before anybody read the topic, or that the
    target is in an old one.
    """
    when = added(history)
    if not when:
        return "no partition was added to the topic"
    grew = min(when.values())
    if not any(e.t < grew for e in history.of(kinds.Delivered, kinds.Batch, kinds.Fetched)):
        return "the partitions were added before anybody had read from the topic"
    old = {
        f"{e.topic}/{e.partition}"
        for e in history.of(kinds.Stored)
        if e.record == target and e.hop == Hop.TOPIC and (e.topic, e.partition) not in when
    }
    if old:
        return f"{target} is not in an added partition, but in {', '.join(sorted(old))}"
    return None


def added(history: History) -> dict[tuple[str, int], int]:
    """Return when each partition was added (monotonic ns), by topic and partition."""
    return {(event.topic, event.partition): event.t for event in history.of(kinds.Added)}
