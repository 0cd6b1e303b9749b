"""Proof that a member was told that its group shares out anew while its position was on its way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from harness.model import events as kinds
from harness.model.events import RegroupPhase, RulePhase
from harness.model.requests import Request
from harness.model.struck import hits_of
from harness.proofs.moved import is_incremental

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.judge.proof import ProofContext
    from harness.model.history import History
    from harness.model.tail import SoFar

TELLING: Final = "telling"
"""The rules that hold the answers that tell a member of its partitions."""
SAVING: Final = "saving"
"""The rule that holds requests to save a position."""
SAVED: Final = "saved"
"""The rule that holds the answers to them."""


def tells(hit: kinds.Rule, log: str | None) -> bool:
    """Say whether an answer that is held tells its member to give a partition up: the error of a
    heartbeat (of a classic group), or partitions that lack this one. ``log``: ``topic/partition``;
    ``None``: nobody knows yet which it is.
    """
    if hit.assigned is None:
        return hit.api == Request.HEARTBEAT and hit.error not in (None, 0)
    return log not in hit.assigned


@dataclass(frozen=True, slots=True)
class ToldWhileSaving:
    """The member that has the target was told that its group shares out anew while its request to
    save a position was on its way; ``answered``: while the answer to that was.
    """

    name: ClassVar[str] = "told-while-saving"

    answered: bool

    def trouble(self, course: ProofContext) -> str | None:
        """Say what of this the history does not show."""
        history = course.history
        told = next(told_of(history, course.plan.target), None)
        if told is None:
            return "not tried: nobody saw that the member was told that its group shares out anew"
        rule = SAVED if self.answered else SAVING
        what = "answer to its position" if self.answered else "position"
        on_the_way = [
            (asked, arrived)
            for asked in hits_of(history, (rule,))
            if asked.conn == told.conn
            for arrived in history.of(kinds.Rule)
            if arrived.rule == rule
            and arrived.phase == RulePhase.RELEASED
            and arrived.held == asked.held
            and told.t < arrived.t
        ]
        if not on_the_way:
            return f"not tried: no {what} was on its way when the member was told"
        return None


def told_of(history: History | SoFar, target: str) -> Iterator[kinds.GroupMember]:
    """Yield what told the member that has the target to give its partition up, and was held. The
    error of a heartbeat does so only if the member gives up all that it has before it joins again.
    """
    change = next((e for e in history.of(kinds.Regroup) if e.phase == RegroupPhase.CHANGED), None)
    log = log_of(history, target)
    if change is None or log is None:
        return
    held = {
        f"{e.conn}:{e.corr}"
        for e in history.of(kinds.Rule)
        if e.rule.startswith(TELLING) and e.phase == RulePhase.HIT
    }
    mine = [
        line
        for line in history.of(kinds.GroupMember)
        if line.conn == change.conn or line.member == change.member
    ]
    for number, line in enumerate(mine):
        if not line.reached or line.t < change.t or line.request not in held:
            continue
        if line.assigned is not None:
            revokes = log not in line.assigned
        else:
            owned = next((each.owned for each in mine[number:] if each.owned is not None), None)
            kept = any(map(is_incremental, mine[:number]))
            revokes = not kept if owned is None else log not in owned
        if revokes:
            yield line


def log_of(history: History | SoFar, target: str) -> str | None:
    """Return the partition that the target is in, as ``topic/partition``; ``None``: it never came
    to a reader.
    """
    copies = (e for e in history.of(kinds.Fetched) if e.record == target and e.at is not None)
    copy = next(copies, None)
    return None if copy is None or copy.at is None else f"{copy.topic}/{copy.at[0]}"
