"""Proofs that the fault met more than one record: two requests under way, or a batch of many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from harness.model import events as kinds
from harness.model.bursts import Strike
from harness.model.events import ConnPhase, FaultPhase, RulePhase
from harness.model.scenario import Role
from harness.model.struck import first_at, hits_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.judge.proof import ProofContext
    from harness.model.history import History
    from harness.model.tail import SoFar

AGAIN: Final = "again"
"""The rule at the request that is sent again."""


def others_under_way(history: History | SoFar, hit: kinds.Rule) -> list[kinds.Sent | kinds.Unsent]:
    """Return what was sent behind the target's request over the same connection to the same
    partition, in other requests. ``hit``: the rule at the target's request, or at its answer.

    A connection's answers come in order. So while the target's request has none, neither have
    these. What comes behind a refusal of the target's request does not count.
    """
    told = [e.t for e in history.of(kinds.Rule) if e.phase == RulePhase.ANSWERED]
    sends = [
        e for e in history.of(kinds.Sent, kinds.Unsent) if isinstance(e, kinds.Sent | kinds.Unsent)
    ]
    own = f"{hit.conn}:{hit.corr}"
    places = {(e.topic, e.partition) for e in sends if e.request == own and e.record == hit.record}
    return [
        e
        for e in sends
        if (e.topic, e.partition) in places
        and e.request != own
        and e.request.startswith(f"{hit.conn}:")
        and int(e.request.partition(":")[2]) > (hit.corr or 0)
        and all(e.t <= t for t in told)
    ]


@dataclass(frozen=True, slots=True)
class TwoUnderWay:
    """When the fault struck, ``role`` had sent a second request over the connection and to the
    partition of the target's, which had no answer; and what ``strike`` names was done then.
    """

    name: ClassVar[str] = "two-under-way"

    role: str
    strike: str

    def trouble(self, course: ProofContext) -> str | None:
        """Say what of this the history does not show."""
        history = course.history
        hit = next(iter(hits_of(history)), None)
        if hit is None:
            return "nobody saw the request with the target"
        struck = first_at(history, FaultPhase.APPLIED)
        seconds = [e for e in others_under_way(history, hit) if struck is None or e.t <= struck]
        if struck is None or not seconds:
            return (
                f"not tried: the {self.role} sent nothing else to the partition of this record "
                "while that had no answer"
            )
        own = f"{hit.conn}:{hit.corr}"
        told = (e for e in history.of(kinds.ProduceAnswer) if e.request == own and e.reached)
        if any(e.t <= struck for e in told):
            return "the request with the target was answered before the fault struck"
        return self._undone(course, hit, struck)

    def _undone(self, course: ProofContext, hit: kinds.Rule, struck: int) -> str | None:
        """Say what was to be done, and was not; a refusal has a proof of its own."""
        if self.strike in (Strike.NOTHING, Strike.FIRST_REFUSED):
            return None
        if self.strike in (Strike.SENDER_DIES, Strike.BROKER_DIES):
            dies = self.role if self.strike == Strike.SENDER_DIES else str(Role.BROKER)
            if any(e.role == dies and e.t >= struck for e in course.killed):
                return None
            return f"the {dies} was not killed with two requests under way"
        ends = course.history.of(kinds.Conn)
        if not any(
            e.conn == hit.conn and e.phase == ConnPhase.CLOSE and e.t >= struck for e in ends
        ):
            return "the connection with the two requests was not cut"
        return self._alone_again(course) if self.strike == Strike.LOST_THEN_REFUSED else None

    def _alone_again(self, course: ProofContext) -> str | None:
        """Say that nothing else was under way when the request that was sent again was refused."""
        again = next(iter(hits_of(course.history, (AGAIN,))), None)
        if again is not None and others_under_way(course.history, again):
            return None
        return (
            f"not tried: the {self.role} sent nothing else to the partition of this record while "
            "the request that it sent again had no answer"
        )


@dataclass(frozen=True, slots=True)
class FromBacklog:
    """``role`` was given the target in one answer with records of its partition before and behind
    it, at least ``least`` in all.
    """

    name: ClassVar[str] = "from-backlog"

    role: str
    least: int

    def trouble(self, course: ProofContext) -> str | None:
        """Say what of this the history does not show."""
        history, target = course.history, course.plan.target
        mine = {e.conn for e in history.of(kinds.Conn) if e.role == self.role}
        fetched = (e for e in history.of(kinds.Fetched) if e.conn in mine and e.reached)
        given = next((e for e in fetched if e.record == target), None)
        if given is None or given.offset is None:
            return f"nobody saw where the {self.role} was given the target"
        offsets = sorted(e.offset or 0 for e in answer_with(history, given))
        if len(offsets) >= self.least and offsets[0] < given.offset < offsets[-1]:
            return None
        before = sum(each < given.offset for each in offsets)
        return (
            f"not tried: the {self.role} was given the target with {before} records of its "
            f"partition before it and {len(offsets) - before - 1} behind it, of {self.least} that "
            "a batch needs; offer more (records in the declaration)"
        )


def answer_with(history: History, given: kinds.Fetched) -> Sequence[kinds.Fetched]:
    """Return the records of the partition that came in the same answer as this one: the wire writes
    the lines of one answer with one time.
    """
    where = (given.conn, given.t, given.topic, given.partition)
    return [e for e in history.of(kinds.Fetched) if (e.conn, e.t, e.topic, e.partition) == where]
