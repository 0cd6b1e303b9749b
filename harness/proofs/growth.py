"""Proof that partitions were added while the pipeline ran, and in time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.model import events as kinds

if TYPE_CHECKING:
    from harness.judge.proof import Course
    from harness.model.history import History


@dataclass(frozen=True, slots=True)
class Grown:
    """The topic got partitions while it was read, and the target stands in one of those."""

    name: ClassVar[str] = "grown"

    def trouble(self, course: Course) -> str | None:
        """Say how the topic did not grow as planned."""
        return ungrown(course.history, course.plan.target)


def ungrown(history: History, target: str) -> str | None:
    """Say how the topic did not grow as planned: not at all, before it was read, or without the target in a new partition."""
    when = added(history)
    if not when:
        return "the topic was to get partitions, and got none"
    grew = min(when.values())
    if not any(event["t"] < grew for event in history.of(kinds.DELIVERED, kinds.BATCH, kinds.FETCHED)):
        return "the topic got partitions before anybody had read of it"
    old = {f"{e['topic']}/{e['partition']}" for e in history.of(kinds.STORED)
           if e["record"] == target and e["hop"] == "topic" and (e["topic"], e["partition"]) not in when}  # fmt: skip
    if old:
        return f"{target} was to go into a partition that was added, and stands in {', '.join(sorted(old))}"
    return None


def added(history: History) -> dict[tuple[str, int], int]:
    """When each partition was added."""
    return {(event["topic"], event["partition"]): event["t"] for event in history.of(kinds.ADDED)}
