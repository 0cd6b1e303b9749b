"""How far a sweep has come: which of its points were run, which a class speaks for, and which
nothing has reached.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from harness.report.summary import counted
from harness.sweep.classes import RunReason
from harness.sweep.lessons import Lessons

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from harness.sweep.classes import Class, ProtocolState
    from harness.sweep.outcomes import Outcome, Outcomes
    from harness.sweep.points import Point
    from harness.sweep.steps import Step, Steps


class Reach(StrEnum):
    """How far a sweep has come with a point, or with a step."""

    RUN = "run"
    """A fault struck here, and the history proves it."""
    SAMPLED = "sampled"
    """Likewise; the point was drawn to test whether the points of its class behave alike."""
    BY_CLASS = "by its class"
    """No fault struck here. The nearest points of its class before it and behind it were run, and
    came out alike.
    """
    NEVER = "never reached"
    """No fault struck here, and no point that was run stands for it."""


RAN = frozenset({Reach.RUN, Reach.SAMPLED})


@dataclass(frozen=True)
class SweepProgress:
    """How far a sweep has come with each point (``points``, by id), and what came of it
    (``verdicts``; none if never reached).

    ``left``: how many points are still to be run: chosen ones, and those that split a class.
    """

    points: Mapping[str, Reach]
    verdicts: Mapping[str, str]
    steps: Mapping[Step, Reach]
    classes: Mapping[Class, bool]
    """Whether a point of the class was run, and the history proves its fault."""
    left: int
    states: Mapping[ProtocolState, bool]
    """Whether a fault struck in the state, and the history proves it: of every state in which a
    point is possible.
    """
    dry: int
    """How many points with a proof in turn, the last of all in the order of the plan, struck no new
    protocol state and had no new outcome of their act.
    """

    @property
    def partial(self) -> bool:
        """Whether points are still to be run."""
        return self.left > 0

    @property
    def sentence(self) -> str:
        """How many points and steps were reached, as text."""
        points, steps = Counter(self.points.values()), Counter(self.steps.values())
        of_points = ", ".join(f"{points[each]} {each}" for each in Reach)
        of_steps = ", ".join(f"{steps[each]} {each}" for each in Reach if each is not Reach.SAMPLED)
        dry = f"; the last {counted(self.dry, 'point')} taught nothing new" if self.dry else ""
        return (
            f"of {len(self.points)} points {of_points}; of {len(self.steps)} steps {of_steps}; "
            f"{sum(self.states.values())} of {len(self.states)} protocol states struck{dry}"
        )

    def of_states(self, *, struck: bool) -> list[str]:
        """Return the names of the protocol states in which a fault struck, or of the others."""
        return [str(each) for each, one in self.states.items() if one is struck]

    def row(self) -> dict[str, object]:
        """Return the numbers as plain data."""
        points, steps = Counter(self.points.values()), Counter(self.steps.values())
        tried = sum(self.classes.values())
        return {
            "partial": self.partial,
            "left": self.left,
            "points": {_name(each): points[each] for each in Reach},
            "steps": {_name(each): steps[each] for each in Reach if each is not Reach.SAMPLED},
            "classes": {"tried": tried, "never_reached": len(self.classes) - tried},
            "states": {
                "struck": self.of_states(struck=True),
                "never_reached": self.of_states(struck=False),
            },
            "dry": self.dry,
        }


def _name(each: Reach) -> str:
    """Return the name for programs.

    >>> _name(Reach.BY_CLASS)
    'by_its_class'
    """
    return str(each).replace(" ", "_")


def reached(steps: Steps, outcomes: Outcomes, chosen: Iterable[Point]) -> SweepProgress:
    """Return how far a sweep has come. ``chosen``: the points that its plan runs."""
    points: dict[str, Reach] = {}
    verdicts: dict[str, str] = {}
    proved = {one.point.id: one for one in outcomes.all if one.proved}
    of_step: dict[Step, list[Reach]] = {step: [] for step, _ in steps.found}
    for inside in outcomes.inside().values():
        for point, before, behind in _between(inside, proved):
            if one := proved.get(point.id):
                reach = Reach.SAMPLED if one.why is RunReason.SAMPLE else Reach.RUN
                verdicts[point.id] = one.signature.verdict
            elif before and behind and before.signature.outcome == behind.signature.outcome:
                reach = Reach.BY_CLASS
                verdicts[point.id] = before.signature.verdict
            else:
                reach = Reach.NEVER
            points[point.id] = reach
            if point.second is None:
                of_step.setdefault(point.step, []).append(reach)
    turn = {point.id: number for number, point in enumerate(chosen)}
    left = turn.keys() - outcomes.done
    left |= {point.id for point, _ in outcomes.splits()}
    tried = {one.where for one in proved.values()} | {one.planned for one in proved.values()}
    classes = {each: each in tried for each in outcomes.classes}
    struck = {one.where.state for one in proved.values()}
    known = dict.fromkeys(each.state for each in outcomes.classes) | dict.fromkeys(struck)
    return SweepProgress(
        points,
        verdicts,
        {step: _of(found) for step, found in of_step.items()},
        classes,
        len(left),
        {each: each in struck for each in known},
        Lessons.of(sorted(outcomes.all, key=lambda one: turn.get(one.point.id, len(turn)))).dry,
    )


def _between(
    inside: Iterable[Point], proved: Mapping[str, Outcome]
) -> Iterator[tuple[Point, Outcome | None, Outcome | None]]:
    """Yield the points of a class, each with the nearest outcomes before it and behind it."""
    points = list(inside)
    behind: list[Outcome | None] = []
    last: Outcome | None = None
    for point in reversed(points):
        behind.append(last)
        last = proved.get(point.id, last)
    last = None
    for point, later in zip(points, reversed(behind), strict=True):
        yield point, last, later
        last = proved.get(point.id, last)


def _of(points: list[Reach]) -> Reach:
    """Return how far a sweep has come with a step: run if any of its points was; by their classes
    only if all are.

    >>> str(_of([Reach.NEVER, Reach.SAMPLED])), str(_of([Reach.BY_CLASS, Reach.NEVER]))
    ('run', 'never reached')
    """
    if RAN.intersection(points):
        return Reach.RUN
    return (
        Reach.BY_CLASS if points and all(each is Reach.BY_CLASS for each in points) else Reach.NEVER
    )
