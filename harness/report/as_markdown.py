"""``report.md``: the report in Markdown, for code hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model.semantics import Semantic
from harness.report.advising import last_log_lines, mending
from harness.report.costs import LEGEND, costs
from harness.report.coverage import LEGEND as COVERAGE_LEGEND
from harness.report.coverage import coverage, groups
from harness.report.escaping import code, markdown
from harness.report.headline import cells_not_green, headline
from harness.report.matrix import CONFIDENCE_RUNS, MatrixEntry, tables
from harness.report.own import own_facts
from harness.report.page.detail import first_seen
from harness.report.page.usual import MARKED
from harness.report.renderer import HOW_WE_COUNT, Renderer, facts
from harness.report.summary import SIGNS, counted, outcome, rerun_line, summarise

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.report.matrix import Row, Table
    from harness.saved import SavedRun

MOST_RED = 50
"""How many red cells are described (a step summary of GitHub holds 1 MiB)."""


def render(run: SavedRun) -> str:
    """Return the report as Markdown."""
    parts = (
        _head(run),
        _matrix(run),
        _red(run),
        _missing(run),
        _costs(run),
        _coverage(run),
        _count(),
    )
    return "\n".join(line for part in parts for line in part) + "\n"


def _head(run: SavedRun) -> Iterator[str]:
    summary = summarise(run)
    yield f"# lostack: {markdown(headline(run))}"
    yield ""
    yield f"**{markdown(summary.sentence)}**"
    yield ""
    for sentence in run.info.untried:
        yield f"**{markdown(sentence)}**"
        yield ""
    for name, value in (own_facts(run) | facts(run.info)).items():
        yield f"- {name}: {code(value) if name == 'command' else markdown(value)}"
    yield ""


def _matrix(run: SavedRun) -> Iterator[str]:
    reasons: dict[str, int] = {}
    runs: set[int] = set()
    yield (
        "Each cell: lost / duplicated. "
        f"{', '.join(f'{sign} {name}' for name, sign in SIGNS.items())}."
    )
    yield ""
    for table in tables(run):
        yield from _table(table, reasons)
        runs |= {spot.evidence for row in table.rows for spot in row.spots.values()}
    for reason, number in reasons.items():
        yield f"- n/a ({number}): {markdown(reason)}"
    bounds = [f"{n} runs {CONFIDENCE_RUNS / n:.0%}" for n in sorted(runs) if n > CONFIDENCE_RUNS]
    if bounds:
        yield (
            "- A 0 in n runs bounds the share of runs that would show one at 3/n, with 95 % "
            f"confidence: {', '.join(bounds)}."
        )
    yield ""


def _table(table: Table, reasons: dict[str, int]) -> Iterator[str]:
    yield f"## {markdown(table.title)}"
    yield ""
    yield f"| {'failure point' if table.own else 'scenario'} | {' | '.join(table.semantics)} |"
    yield f"|---|{'---|' * len(table.semantics)}"
    for row in table.worst_first:
        yield (
            f"| {markdown(row.name)} | "
            f"{' | '.join(_spot(row, semantic, reasons) for semantic in table.semantics)} |"
        )
    yield ""


def _spot(row: Row, semantic: Semantic, reasons: dict[str, int]) -> str:
    spot = row.spots.get(semantic, MatrixEntry())
    if spot.results:
        return spot_text(spot)
    if spot.not_applicable is None:
        return ""
    return f"n/a ({reasons.setdefault(spot.not_applicable, len(reasons) + 1)})"


def spot_text(spot: MatrixEntry) -> str:
    """Return the text of one spot of the matrix: counts, sign and outcome, and the
    number of runs.
    """
    totals = (spot.total("lost"), spot.total("duplicated"))
    lost, duplicated = ("?" if total is None else str(total) for total in totals)
    times = f" in {len(spot.results)} runs" if len(spot.results) > 1 else ""
    return f"{lost} / {duplicated} {SIGNS[spot.outcome]} {spot.outcome}{times}"


def _red(run: SavedRun) -> Iterator[str]:
    red = cells_not_green(run)
    if not red:
        return
    yield f"## {counted(len(red), 'cell')} not green"
    yield ""
    for result in red[:MOST_RED]:
        yield (
            f"- {SIGNS[outcome(result.verdict)]} **{markdown(result.verdict.label)}** "
            f"{code(result.plan.id)}"
        )
        yield f"  - {markdown(result.verdict.reason)}"
        yield f"  - {markdown(result.plan.because)}"
        for record, sentence, why in first_seen(result):
            yield f"  - seen of {markdown(record)}: {markdown(sentence)}"
            if why:
                yield f"  - {markdown(MARKED.format(why))}"
        for line in run.compared(result):
            yield f"  - compared with runs without a fault: {markdown(line)}"
        if mends := mending(result):
            yield f"  - how to fix it: {markdown(mends)}"
        for stage, lines in last_log_lines(result):
            words = f"it last said: {' '.join(map(code, lines))}" if lines else "it printed nothing"
            yield f"  - the {markdown(stage)} ended by an error; {words}"
        yield f"  - again: {code(rerun_line(result.plan))}"
    if len(red) > MOST_RED:
        yield f"- and {len(red) - MOST_RED} more: see report.json"
    yield ""


def _missing(run: SavedRun) -> Iterator[str]:
    if not run.missing:
        return
    yield f"## PARTIAL: {counted(len(run.missing), 'planned cell')} never began"
    yield ""
    for cell in run.missing[:MOST_RED]:
        yield f"- {code(cell)}"
    if len(run.missing) > MOST_RED:
        yield f"- and {len(run.missing) - MOST_RED} more: see report.json"
    yield ""


def _costs(run: SavedRun) -> Iterator[str]:
    found = costs(run)
    if not found:
        return
    yield "## What a semantic costs here"
    yield ""
    yield LEGEND
    yield ""
    yield f"| | {' | '.join(Semantic)} |"
    yield f"|---|{'---|' * len(Semantic)}"
    for cost in found:
        figures = (cost.figures[each].text if each in cost.figures else "" for each in Semantic)
        yield f"| {markdown(cost.name)} | {' | '.join(figures)} |"
    yield ""


def _coverage(run: SavedRun) -> Iterator[str]:
    found = groups(coverage(run))
    if not found:
        return
    yield "## What was seen, and what never was"
    yield ""
    yield COVERAGE_LEGEND
    yield ""
    for group, seen, never in found:
        yield (
            f"- {group}: "
            f"{', '.join(f'{markdown(goal.name)} {len(goal.cells)}' for goal in seen) or 'none'}"
        )
        if never:
            yield f"  - never: {', '.join(markdown(goal.name) for goal in never)}"
    yield ""


def _count() -> Iterator[str]:
    yield "## How we count"
    yield ""
    for sentence in HOW_WE_COUNT:
        yield f"- {sentence}"


RENDERER = Renderer("markdown", "report.md", render)
