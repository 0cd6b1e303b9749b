"""What a history tells of its fault: when it came to a phase, the frames that its rule hit, and
who was started behind that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.model.events import FaultPhase, NodePhase, RulePhase

if TYPE_CHECKING:
    from collections.abc import Collection

    from harness.model.history import History
    from harness.model.tail import SoFar

RULE: Final = "fault"
"""The name of the rule that is the fault; other rules serve it."""


def first_at(history: History | SoFar, phase: FaultPhase) -> int | None:
    """Return when the fault first came to a phase (monotonic ns); ``None``: it never did."""
    return next((event.t for event in history.of(kinds.Fault) if event.phase == phase), None)


def hits_of(history: History | SoFar, rules: Collection[str] = (RULE,)) -> list[kinds.Rule]:
    """Return the hits of these rules, by default of the fault's own rule, in their order."""
    hits = (event for event in history.of(kinds.Rule) if event.phase == RulePhase.HIT)
    return [event for event in hits if event.rule in rules]


def starts_of(history: History | SoFar, role: str, since: int = -1) -> list[int]:
    """Return when the processes of a role were started behind a time (monotonic ns)."""
    nodes = (event for event in history.of(kinds.Node) if event.t > since)
    return [e.t for e in nodes if (e.role, e.phase) == (role, NodePhase.STARTED)]
