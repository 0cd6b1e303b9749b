"""Proof that a group shared out the target's partition anew while the target was in a certain
state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from harness.model import events as kinds
from harness.model.events import RegroupPhase, WorkPhase
from harness.model.kinds import Direction
from harness.model.rebalances import Change
from harness.model.requests import SAVES_POSITION, Request
from harness.model.sign import Sign
from harness.model.struck import hits_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from harness.judge.proof import ProofContext
    from harness.model.history import History
    from harness.model.tail import SoFar

COOPERATIVE: Final = "cooperative"
"""What the names of incremental assignors of classic groups have in them."""
MOVED_IN_HAND: Final = Sign(
    "moved-in-hand",
    "the partition of this record was assigned anew while a member had the record in hand: its "
    "result was held, or its position not saved",
)
PARTITION_WAITED: Final = Sign(
    "partition-waited",
    "the group began to share out its partitions with this record in hand, and its member gave the "
    "partition up only behind it: its result had gone on, or its position was saved",
)
CAME_BACK: Final = Sign(
    "came-back",
    "the member that had this record in hand is static: its next life came back under its name and "
    "has the partition again, which nobody else had meanwhile",
)
DOES: Final = {
    Change.JOINS: "another member joined",
    Change.COMES_AND_GOES: "another member joined and left",
    Change.LEAVES: "the member that had the record was told to end",
    Change.OTHER_LEAVES: "the other members were told to end",
    Change.PUT_OUT: "the member that had the record was put out",
    Change.OVERDUE: "the member that had the record was at work for longer than max.poll.interval",
}


@dataclass(frozen=True, slots=True)
class PartitionSinceChange:
    """What the wire saw of the target's partition since the group was changed."""

    changed: int | None
    """When (monotonic ns); null: it never was."""
    given: int | None
    """When the target reached the member."""
    assigned: kinds.GroupMember | None
    """The answer by which the partition was assigned anew."""
    saved: bool
    """Whether a position behind the target was saved by then."""
    elsewhere: bool = False
    """Whether another member has it than before."""


@dataclass(frozen=True, slots=True)
class Moved:
    """``change`` was made to the group of ``role``, and the partition of the target was assigned
    anew behind it. ``saved``: its position had to be saved by then; of a member that was put out it
    must not be, if it had not to be.
    """

    name: ClassVar[str] = "moved"

    role: str
    change: str
    saved: bool = False
    elsewhere: bool = False
    """Whether it must be another member that has the partition then."""

    def trouble(self, course: ProofContext) -> str | None:
        """Say what of this the history does not show."""
        target, what = course.plan.target, DOES[Change(self.change)]
        seen = seen_of(course.history, target)
        why = None
        if seen.changed is None:
            why = f"nobody saw that {what}"
        elif seen.assigned is None:
            why = f"{what}, and nobody saw that the partition of {target} was assigned anew"
        elif self.elsewhere and not seen.elsewhere:
            why = f"{what}, and did not get the partition of {target}"
        elif seen.given is None:
            why = f"{target} did not reach the {self.role}"
        elif Change(self.change) is Change.PUT_OUT and seen.saved is not self.saved:
            when = "before" if seen.saved else "after"
            why = f"the position behind {target} was saved {when} {what}"
        return None if why is None else f"not tried: {why}"


def seen_of(history: History | SoFar, target: str) -> PartitionSinceChange:
    """Return what the wire saw of the target's partition since the group was changed."""
    changes = [e for e in history.of(kinds.Regroup) if e.phase == RegroupPhase.CHANGED]
    copies = [(e, e.at) for e in history.of(kinds.Fetched) if e.record == target and e.at]
    if not changes or not copies:
        return PartitionSinceChange(changes[0].t if changes else None, None, None, saved=False)
    change, (place, at) = changes[0], copies[0]
    log = f"{place.topic}/{at[0]}"
    assigned = _assigned(history.of(kinds.GroupMember), change, log)
    until = None if assigned is None else assigned.t
    given = next((e.t for e, _ in copies if e.reached), None)
    answers = (e for e in hits_of(history) if e.dir == Direction.RESPONSE)
    # an answer that is held is told when it goes on; the broker has saved the position long before
    saved = any(e.api in SAVES_POSITION and (until is None or e.t < until) for e in answers) or any(
        not e.error
        and (e.topic, e.partition) == (place.topic, at[0])
        and (e.offset or 0) > at[1]
        and (until is None or e.t < until)
        for e in history.of(kinds.CommitAnswer)
    )
    elsewhere = assigned is not None and not _is_holder(assigned, change)
    return PartitionSinceChange(change.t, given, assigned, saved, elsewhere)


def _assigned(
    lines: Iterable[kinds.GroupMember], change: kinds.Regroup, log: str
) -> kinds.GroupMember | None:
    """Return the first answer behind the change that assigns a partition to another member, or to
    its holder again, if the holder had given it up before it asked.
    """
    gave_up = False
    for line in lines:
        if line.t < change.t or line.error:
            continue
        mine = _is_holder(line, change)
        if mine and line.owned is not None and log not in line.owned:
            gave_up = True
        if line.assigned and log in line.assigned and (not mine or gave_up):
            return line
    return None


def _is_holder(line: kinds.GroupMember, change: kinds.Regroup) -> bool:
    return line.conn == change.conn or line.member == change.member


def taken_in(history: History) -> frozenset[str]:
    """Return the partitions (``topic/partition``) that a member has taken which joined a group when
    lostack had started it.
    """
    started = next((e for e in history.of(kinds.Regroup) if e.phase == RegroupPhase.STARTED), None)
    lines = [e for e in history.of(kinds.GroupMember) if not e.error]
    if started is None:
        return frozenset()
    known = {e.member for e in lines if e.t < started.t}
    late = (e.assigned or () for e in lines if e.member not in known)
    return frozenset(log for assigned in late for log in assigned)


def moving_signs(history: History) -> Mapping[Sign, AbstractSet[str]]:
    """Return the target, if its partition was assigned anew behind a change of its group."""
    target = next((e.record for e in hits_of(history) if e.record is not None), None)
    if target is None:
        return {}
    seen = seen_of(history, target)
    if seen.assigned is None or seen.given is None:
        return {}
    work = {e.phase: e.t for e in history.of(kinds.Work)}
    done = work.get(WorkPhase.RELEASED)
    waited = seen.saved if WorkPhase.HELD not in work else done and done < seen.assigned.t
    return {PARTITION_WAITED if waited else MOVED_IN_HAND: frozenset({target})}


def is_incremental(line: kinds.GroupMember) -> bool:
    """Say whether an answer shows that a group shares out incrementally: its members give up only
    what is taken from them.
    """
    return (
        line.api == Request.CONSUMER_GROUP_HEARTBEAT
        or COOPERATIVE in (line.assignor or "")
        or bool(line.owned)
    )


def has_left(line: kinds.GroupMember) -> bool:
    """Say whether an answer shows that a member has left its group. In the newer protocol its epoch
    says so: one that has no partitions is a member still.
    """
    if line.api == Request.CONSUMER_GROUP_HEARTBEAT:
        return not line.error and (line.generation or 0) < 0
    return not line.error and line.api == Request.LEAVE_GROUP


def left_by_itself(history: History | SoFar) -> kinds.GroupMember | None:
    """Return the answer by which the member that has the target left its group, which nobody had
    told it.
    """
    changes = [e for e in history.of(kinds.Regroup) if e.phase == RegroupPhase.CHANGED]
    if not changes:
        return None
    return next(
        (
            e
            for e in history.of(kinds.GroupMember)
            if e.t > changes[0].t and _is_holder(e, changes[0]) and has_left(e)
        ),
        None,
    )


def returning_signs(history: History) -> Mapping[Sign, AbstractSet[str]]:
    """Return the target, if its partition went from a static member to that member's next life."""
    hit = next((e for e in hits_of(history) if e.record is not None), None)
    if hit is None:
        return {}
    copies = (e for e in history.of(kinds.Fetched) if e.record == hit.record and e.at is not None)
    copy = next(copies, None)
    if copy is None or copy.at is None:
        return {}
    log = f"{copy.topic}/{copy.at[0]}"
    lines = [e for e in history.of(kinds.GroupMember) if not e.error]
    names = {e.member: e.instance for e in lines if e.instance is not None}
    has = [e for e in lines if log in (e.assigned or ())]
    before = next((e.member for e in reversed(has) if e.t < hit.t), None)
    after = next((e.member for e in has if e.t > hit.t and e.member != before), None)
    if before is None or after is None or before not in names:
        return {}
    return {CAME_BACK: frozenset({hit.record or ""})} if names[before] == names.get(after) else {}
