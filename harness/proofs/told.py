"""Proof that a member was told that its group shares out anew while its position was on its way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from harness.model import events as kinds
from harness.model.events import RegroupPhase, RulePhase
from harness.model.kinds import Direction
from harness.model.requests import Request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.judge.proof import ProofContext
    from harness.model.history import History
    from harness.model.tail import SoFar

TELLING: Final = "telling"
"""The rules that hold the answers to heartbeats."""
SAVING: Final = "saving"
"""The rule that holds requests to save a position."""
SAVED: Final = "saved"
"""The rule that holds the answers to them."""


def tells(hit: kinds.Rule, history: History | SoFar) -> bool:
    """Say whether the answer to a heartbeat, of which only the header is known while it is held,
    says that the group shares out anew: it is an error, or in the newer protocol longer than one
    that changes nothing.
    """
    if hit.api != Request.CONSUMER_GROUP_HEARTBEAT:
        return hit.error not in (None, 0)
    sizes = [
        e.size
        for e in history.of(kinds.Frame)
        if (e.conn, e.api, e.dir)
        == (hit.conn, Request.CONSUMER_GROUP_HEARTBEAT, Direction.RESPONSE)
        and e.size is not None
    ]
    return hit.size is not None and bool(sizes) and hit.size > min(sizes)


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
            for asked in history.of(kinds.Rule)
            if asked.rule == rule and asked.phase == RulePhase.HIT and asked.conn == told.conn
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
    """Yield what told the member that has the target to give its partition up, and was held."""
    change = next((e for e in history.of(kinds.Regroup) if e.phase == RegroupPhase.CHANGED), None)
    copies = (e for e in history.of(kinds.Fetched) if e.record == target and e.at is not None)
    copy = next(copies, None)
    if change is None or copy is None or copy.at is None:
        return
    log = f"{copy.topic}/{copy.at[0]}"
    held = {
        f"{e.conn}:{e.corr}"
        for e in history.of(kinds.Rule)
        if e.rule.startswith(TELLING) and e.phase == RulePhase.HIT
    }
    for line in history.of(kinds.GroupMember):
        mine = line.conn == change.conn or line.member == change.member
        gone = line.assigned is None or log not in line.assigned
        if mine and line.reached and line.t > change.t and line.request in held and gone:
            yield line


__all__ = [
    "SAVED",
    "SAVING",
    "TELLING",
    "ToldWhileSaving",
    "tells",
    "told_of",
]
