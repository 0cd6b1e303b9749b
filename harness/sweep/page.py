"""The page of a sweep: the dry run as a timeline, with each step's worst verdict as colour, and a
table of classes and acts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.judge.verdict import WORST, Kind
from harness.report.as_html import render_template
from harness.sweep.points import base_of, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.sweep.classes import Class
    from harness.sweep.outcomes import Outcome, Outcomes
    from harness.sweep.points import Point
    from harness.sweep.steps import Step, Steps

PAGE_FILE = "sweep.html"
UNKNOWN = "unknown"
"""The verdict of a step if no point of its classes has been run."""
WIDE, HIGH = 4, 13
"""The width of a step and the height of a row, in pixels."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A step on the timeline. ``run``: a point of this step was run; else its verdict is that of
    its classes.
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
    """One field of the table: the worst verdict of an act in the classes of a row, and ``run``
    points run ``of`` all.
    """

    verdict: str
    run: int
    of: int


@dataclass(frozen=True, slots=True)
class Table:
    """A table with a row for each kind and phase of classes, and a column for each act."""

    acts: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell | None, ...]], ...]


def worst_of(verdicts: Iterable[str]) -> str:
    """Return the worst of several verdicts: broken before stuck before kept; void only if there is
    no other.

    >>> worst_of(["kept", "stuck", "void"]), worst_of(["void"]), worst_of([])
    ('stuck', 'void', 'unknown')
    """
    found = set(verdicts)
    order = [str(kind) for kind in WORST if kind is not Kind.VOID] + [str(Kind.VOID)]
    return next((each for each in order if each in found), UNKNOWN)


def timeline_of(steps: Steps, outcomes: Outcomes) -> Timeline:
    """Return the timeline of a dry run."""
    here: dict[Step, list[str]] = {}
    for one in outcomes.all:
        here.setdefault(one.point.step, []).append(one.signature.verdict)
    of_class = _by_class(outcomes)
    classes: dict[Step, list[str]] = {}
    for each, inside in outcomes.classes.items():
        for point in inside:
            if point.second is None:
                classes.setdefault(point.step, []).append(of_class.get(each, UNKNOWN))
    kinds: dict[tuple[str, str, str], int] = {}
    marks = []
    for place, (step, _) in enumerate(steps.found):
        row = kinds.setdefault((step.role, step.api, str(step.direction)), len(kinds))
        run = step in here
        verdict = worst_of(
            here[step] if run else (each for each in classes.get(step, ()) if each != UNKNOWN)
        )
        marks.append(
            Mark(
                place * WIDE,
                row * HIGH,
                verdict,
                run,
                f"{words(step)}: {verdict}{'' if run else ' (by its class)'}",
            )
        )
    rows = tuple((row * HIGH, " ".join(kind)) for kind, row in kinds.items())
    return Timeline(rows, tuple(marks), len(steps.found) * WIDE, len(kinds) * HIGH)


def table_of(outcomes: Outcomes) -> Table:
    """Return the table of classes by acts. All refusals share a column; second faults have a column
    for each second act.
    """
    ran = Counter(one.where for one in outcomes.all)
    verdicts = _by_class(outcomes)
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
        return Cell(
            verdict,
            sum(ran[each] for each in inside),
            sum(len(outcomes.classes[each]) for each in inside),
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
    title: str,
    facts: Mapping[str, str],
    steps: Steps,
    outcomes: Outcomes,
    scenarios: Mapping[str, str],
) -> str:
    """Return the page as HTML. ``scenarios``: the command that runs a finding again, by the id of
    its first point.
    """
    findings = [
        (finding, scenarios.get(finding.first.point.id, ""), _shown(finding.points))
        for finding in outcomes.findings()
    ]
    return render_template(
        "sweep.html.j2",
        title=title,
        facts=facts,
        timeline=timeline_of(steps, outcomes),
        table=table_of(outcomes),
        findings=findings,
        unproved=outcomes.unproved,
        deviations=[
            (str(each), _shown_points(points)) for each, points in outcomes.deviations().items()
        ],
    )


def _shown_points(points: Iterable[Point]) -> str:
    return ", ".join(point.id for point in points)


def _shown(points: tuple[Outcome, ...]) -> str:
    return _shown_points(one.point for one in points)
