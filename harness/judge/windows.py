"""The windows of a run in which the fault strikes several records, one after the other. Each strike
is judged by itself, as if the run had no other.

A window begins when its record is aimed at, and ends when the next one is; the first begins with
the run, and the last ends with it. Before the next record is aimed at, everything that was offered
has come to rest, as far as the wire and the saved positions show. So what was offered in a window
was lost, or doubled, in that window, unless a program that saves its position early still had it in
hand. A verdict therefore says only in which window a record was offered; the plan knows that.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from harness.judge.course import RunCourse
from harness.model import events as kinds
from harness.model.cell import middles_of
from harness.model.events import FaultPhase, NodePhase
from harness.model.history import History
from harness.model.prediction import examples

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from harness.judge.accounting import Account
    from harness.judge.proof import Knowledge
    from harness.judge.signs import Signs
    from harness.model.events import Event
    from harness.model.plan import Plan

OF_FAULTS: Final = (kinds.Fault, kinds.Rule, kinds.Failpoint, kinds.Durable)
"""Lines of a fault: each belongs to one window."""
NEVER: Final = math.inf
UNAIMED: Final = (
    "this record was never aimed at: the strike before did not happen, or what was offered never "
    "came to rest"
)
STRUCK: Final = frozenset({NodePhase.EXITED, NodePhase.PAUSED, NodePhase.RESUMED, NodePhase.TOLD})
"""What a fault does to a process: likewise."""


@dataclass(frozen=True, slots=True)
class Window:
    """One strike: the plan with its target, and the history without the lines of other strikes."""

    plan: Plan
    history: History


def windows_of(plan: Plan, history: History) -> tuple[Window, ...]:
    """Return the windows of a run, one for each target of its plan."""
    if not plan.targets:
        return (Window(plan, history),)
    begins = [0, *_aims(history)[1:], *[NEVER] * len(plan.targets)]
    return tuple(
        Window(replace(plan, target=target, targets=()), _between(history, *when))
        for target, when in zip(plan.targets, pairwise(begins), strict=False)
    )


def _aims(history: History) -> list[int]:
    """Return when a record was aimed at (monotonic ns)."""
    return [e.t for e in history.of(kinds.Fault) if e.phase == FaultPhase.AIMED]


def _between(history: History, since: float, until: float) -> History:
    """Return a history without what faults did at other times."""

    def belongs(event: Event) -> bool:
        apart = isinstance(event, OF_FAULTS) or (
            isinstance(event, kinds.Node) and event.phase in STRUCK
        )
        return not apart or since <= event.t < until

    events = tuple(filter(belongs, history.events))
    return History(events, history.cut_lines, history.damage)


class Strikes:
    """The strikes of a run, each with what its window proves."""

    def __init__(
        self, plan: Plan, history: History, found: Account, signs: Signs, knowledge: Knowledge
    ) -> None:
        self._courses = [
            RunCourse(each.plan, each.history, found, signs, knowledge)
            for each in windows_of(plan, history)
        ]
        self._ends = [end for _, end in middles_of(plan.offered, len(self._courses))]
        self._position = {e.record: e.position for e in history.of(kinds.Offered)}

    @cached_property
    def _why(self) -> list[str | None]:
        """Why each strike proves nothing; ``None``: it does prove something. Nobody asks where the
        instrument was unsound.
        """
        several = len(self._courses) > 1
        return [
            f"{why} ({UNAIMED})" if why and several and not _aims(each.history) else why
            for each in self._courses
            for why in [each.experiment()]
        ]

    @property
    def fired(self) -> int:
        """One if the fault fired as declared, at some target at least; else none."""
        fired = (each.fired_at is not None and each.misfire() is None for each in self._courses)
        return int(any(fired))

    def objection(self) -> str | None:
        """Say which strikes prove nothing, and why. One that does not makes the run void: verdicts
        are merged by the worst.
        """
        return self._told(range(len(self._courses)))

    def stopped(self, stuck: str | None) -> str | None:
        """Say at which strike the pipeline stopped, so that no further record was aimed at; return
        ``None`` if it did not stop, or if a strike that was aimed proves nothing.

        ``stuck``: which stage stopped.
        """
        void = [at for at, why in enumerate(self._why) if why is not None]
        aimed = any(_aims(self._courses[at].history) for at in void)
        if stuck is None or aimed or not void or void[0] == 0:
            return None
        return f"{stuck}; since the strike at {self._at(void[0] - 1)}, behind which none followed"

    def objection_to(self, harmed: AbstractSet[str]) -> str | None:
        """Say why what these records suffered is not shown to come from the fault, or return
        ``None``: they are of a window whose strike is proved. If nobody is named, any will do.
        """
        of = {self._window(record) for record in harmed} or set(range(len(self._courses)))
        return None if any(self._why[at] is None for at in of) else self._told(sorted(of))

    def named(self, harmed: AbstractSet[str]) -> Iterator[str]:
        """Yield for each window with some of these records its target, and these records."""
        if len(self._courses) == 1:
            return
        of: defaultdict[int, set[str]] = defaultdict(set)
        for record in harmed:
            of[self._window(record)].add(record)
        for at in sorted(of):
            yield f"{examples(of[at])}: offered in the wave of {self._at(at)}"

    def _window(self, record: str) -> int:
        """Return the window in which a record was offered; the last, for one that nobody knows."""
        position = self._position.get(record)
        last = len(self._ends) - 1
        if position is None:
            return last
        return next((at for at, end in enumerate(self._ends) if position <= end), last)

    def _at(self, at: int) -> str:
        return f"{self._courses[at].plan.target} (target {at + 1} of {len(self._courses)})"

    def _told(self, of: range | list[int]) -> str | None:
        """Say why these strikes prove nothing; ``None`` if all prove something."""
        void = [at for at in of if self._why[at] is not None]
        if not void:
            return None
        if len(self._courses) == 1:
            return self._why[0]
        by_reason: defaultdict[str, list[str]] = defaultdict(list)
        for at in void:
            by_reason[str(self._why[at])].append(self._at(at))
        said = [f"at {', '.join(where)}: {why}" for why, where in by_reason.items()]
        sound = sum(why is None for why in self._why)
        return "; ".join((*said, f"it struck as declared at {sound} of {len(self._courses)}"))
