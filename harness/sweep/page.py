"""The page of a sweep: the dry run as a timeline of steps, how far the sweep has come with each, a
table of classes and acts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.judge.verdict import WORST, Kind
from harness.report.as_html import render_template
from harness.sweep.acts import base_of, words
from harness.sweep.reached import RAN, Reach

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.sweep.classes import Class
    from harness.sweep.outcomes import Outcome, Outcomes
    from harness.sweep.points import Point
    from harness.sweep.reached import SweepProgress
    from harness.sweep.steps import Step, Steps

PAGE_FILE = "sweep.html"
NEVER = "never"
"""The text in place of a verdict if the sweep has tried nothing."""
WIDE, HIGH = 4, 13
"""The width of a step and the height of a row, in pixels."""


@dataclass(frozen=True, slots=True)
class SweepReport:
    """The content of a sweep's page."""

    steps: Steps
    outcomes: Outcomes
    reached: SweepProgress


@dataclass(frozen=True, slots=True)
class Again:
    """The page's text about a finding, besides its points: the command that runs it again, if there
    is one, and sentences about what it is compared with.
    """

    command: str = ""
    compared: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Mark:
    """A step on the timeline. ``run``: a fault struck at it; else its verdict is that of its
    classes, or ``never``.
    """

    x: int
    y: int
    verdict: str
    run: bool
    text: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """The steps of the dry run, from left to right; a row for each kind."""

    rows: tuple[tuple[int, str], ...]
    marks: tuple[Mark, ...]
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Cell:
    """One field of the table: the worst verdict of an act in the classes of a row; ``run`` points
    run ``of`` all.

    ``never``: how many were never reached, neither by a fault nor by their class.
    """

    verdict: str
    run: int
    of: int
    never: int


@dataclass(frozen=True, slots=True)
class Table:
    """A table with a row for each kind and phase of classes, and a column for each act."""

    acts: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell | None, ...]], ...]


def worst_of(verdicts: Iterable[str]) -> str:
    """Return the worst of several verdicts: broken before stuck before kept; void only if there is
    no other.

    >>> worst_of(["kept", "stuck", "void"]), worst_of(["void"]), worst_of([])
    ('stuck', 'void', 'never')
    """
    found = set(verdicts)
    order = [str(kind) for kind in WORST if kind is not Kind.VOID] + [str(Kind.VOID)]
    return next((each for each in order if each in found), NEVER)


def timeline_of(swept: SweepReport) -> Timeline:
    """Return the timeline of a dry run."""
    reached = swept.reached
    here: dict[Step, list[Point]] = {}
    for inside in swept.outcomes.classes.values():
        for point in inside:
            if point.second is None:
                here.setdefault(point.step, []).append(point)
    unproved = {one.point.id for one in swept.outcomes.unproved}
    kinds: dict[tuple[str, str, str], int] = {}
    marks = []
    for place, (step, _) in enumerate(swept.steps.found):
        row = kinds.setdefault((step.role, step.api, str(step.direction)), len(kinds))
        points, reach = here.get(step, []), reached.steps[step]
        ran = [point for point in points if reached.points[point.id] in RAN]
        counted = [point for point in (ran or points) if point.id in reached.verdicts]
        verdict = (
            NEVER
            if reach is Reach.NEVER
            else worst_of(reached.verdicts[point.id] for point in counted)
        )
        if verdict == NEVER and any(point.id in unproved for point in points):
            verdict = str(Kind.VOID)
        how = f"{len(ran)} of {len(points)} points run" if ran else str(reach)
        text = f"{words(step)}: {'' if verdict == NEVER else f'{verdict}, '}{how}"
        marks.append(Mark(place * WIDE, row * HIGH, verdict, bool(ran), text))
    rows = tuple((row * HIGH, " ".join(kind)) for kind, row in kinds.items())
    return Timeline(rows, tuple(marks), len(swept.steps.found) * WIDE, len(kinds) * HIGH)


def table_of(swept: SweepReport) -> Table:
    """Return the table of classes by acts. All refusals share a column; second faults have a column
    for each second act.
    """
    outcomes = swept.outcomes
    ran = Counter(one.where for one in outcomes.all if one.proved)
    verdicts = _by_class(outcomes)
    never = {
        each: sum(swept.reached.points[point.id] is Reach.NEVER for point in points)
        for each, points in outcomes.inside().items()
    }
    acts = tuple(dict.fromkeys(_column(each) for each in outcomes.classes))
    rows: dict[str, dict[str, list[Class]]] = {}
    for each in outcomes.classes:
        rows.setdefault(f"{each.role} {each.api} {each.direction}, {each.phase}", {}).setdefault(
            _column(each), []
        ).append(each)

    def cell(inside: list[Class] | None) -> Cell | None:
        if inside is None:
            return None
        verdict = worst_of(verdicts[each] for each in inside if each in verdicts)
        of = sum(len(outcomes.classes[each]) for each in inside)
        return Cell(
            verdict,
            sum(ran[each] for each in inside),
            of,
            sum(never.get(each, 0) for each in inside),
        )

    return Table(
        acts,
        tuple((name, tuple(cell(found.get(act)) for act in acts)) for name, found in rows.items()),
    )


def _column(each: Class) -> str:
    before, then, after = each.act.partition(", then ")
    return f"… then {base_of(after)}" if then else base_of(before)


def _by_class(outcomes: Outcomes) -> Mapping[Class, str]:
    found: dict[Class, list[str]] = {}
    for one in outcomes.all:
        found.setdefault(one.where, []).append(one.signature.verdict)
    return {each: worst_of(verdicts) for each, verdicts in found.items()}


def page_of(
    title: str, facts: Mapping[str, str], swept: SweepReport, more: Mapping[str, Again]
) -> str:
    """Return the page as HTML. ``more``: what is said of findings, by the ids of their first
    points.
    """
    outcomes = swept.outcomes
    findings = [
        (finding, more.get(finding.first.point.id, Again()), _shown(finding.points))
        for finding in outcomes.findings()
    ]
    timeline = timeline_of(swept)
    return render_template(
        "sweep.html.j2",
        title=title,
        facts=facts,
        reached=swept.reached,
        timeline=timeline,
        table=table_of(swept),
        seen={(mark.verdict, mark.run) for mark in timeline.marks},
        findings=findings,
        unproved=outcomes.unproved,
        never=[str(each) for each, tried in swept.reached.classes.items() if not tried],
        states=swept.reached.of_states(struck=False),
        struck=swept.reached.of_states(struck=True),
        deviations=[
            (str(each), _shown_points(points)) for each, points in outcomes.deviations().items()
        ],
    )


def _shown_points(points: Iterable[Point]) -> str:
    return ", ".join(point.id for point in points)


def _shown(points: tuple[Outcome, ...]) -> str:
    return _shown_points(one.point for one in points)
