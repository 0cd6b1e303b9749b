"""Two runs side by side: the cells with different outcomes, with the counts of both runs.

If one run used containers and the other processes, cells are compared without their runtime. Then a
different verdict is red, because theory does not depend on the runtime: :attr:`Comparison.red`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.model.safe_files import write_whole
from harness.report.as_html import render_template
from harness.report.escaping import visible
from harness.report.renderer import facts
from harness.report.summary import SIGNS, WORST, Outcome, counted, outcome, summarise
from harness.report.writing import ReportError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.saved import CellResult, SavedRun


@dataclass(frozen=True, slots=True)
class ComparedResult:
    """The result of a cell in one of the runs. Counts are null if its history could not be read."""

    outcome: Outcome
    lost: int | None
    duplicated: int | None
    reason: str
    seconds: float = 0.0

    @property
    def text(self) -> str:
        """The result in a few words."""
        return (
            f"{SIGNS[self.outcome]} {self.outcome} {_shown(self.lost)} / "
            f"{_shown(self.duplicated)} in {self.seconds:.1f} s"
        )


@dataclass(frozen=True, slots=True)
class Change:
    """A cell that differs between the runs. A side is null if the cell was not run there."""

    id: str
    before: ComparedResult | None
    after: ComparedResult | None

    @property
    def worse(self) -> bool:
        """Whether its outcome is worse than before."""
        return bool(self.before and self.after) and _rank(self.after) < _rank(self.before)

    @property
    def better(self) -> bool:
        """Whether its outcome is better than before."""
        return bool(self.before and self.after) and _rank(self.after) > _rank(self.before)


@dataclass(frozen=True)
class Comparison:
    """The differences between two runs: worse cells, better ones, other counts, then cells that
    only one run has.
    """

    before: SavedRun
    after: SavedRun
    changes: tuple[Change, ...]
    same: int
    """How many cells have the same outcome and the same counts in both runs."""
    runtimes: tuple[str, str] | None = None
    """The two runtimes, if each run has one runtime and the two differ."""
    times: tuple[float, float] = (0.0, 0.0)
    """The summed seconds of the cells that both runs have, for each run."""
    elsewhere: frozenset[str] = frozenset()
    """Cells that only one run has because the other lists them as not applicable."""

    @property
    def differing(self) -> tuple[Change, ...]:
        """Cells whose outcomes differ, and cells that one of two runtimes lacks
        without a reason.
        """
        return tuple(
            change
            for change in self.changes
            if change.worse or change.better or self._missing(change)
        )

    @property
    def red(self) -> bool:
        """Whether two runtimes disagree."""
        return self.runtimes is not None and (bool(self.differing) or not self._both)

    @property
    def _both(self) -> bool:
        """Whether both runs have a cell in common."""
        return self.same > 0 or any(change.before and change.after for change in self.changes)

    def _missing(self, change: Change) -> bool:
        return (
            self.runtimes is not None
            and not (change.before and change.after)
            and change.id not in self.elsewhere
        )

    @property
    def judged(self) -> str | None:
        """Whether two runtimes agree, in one sentence; null if the runs do not compare runtimes."""
        if self.runtimes is None:
            return None
        times = ", ".join(
            f"{name} {seconds:.0f} s"
            for name, seconds in zip(self.runtimes, self.times, strict=True)
        )
        where = " and ".join(self.runtimes)
        if not self._both:
            return f"RED: {where} have no cell in common"
        if self.differing:
            return (
                f"RED: {counted(len(self.differing), 'cell')} with different verdicts in "
                f"{where}; cells of both: {times}"
            )
        return f"every verdict is the same in {where}; cells of both: {times}"

    @property
    def sentence(self) -> str:
        """The comparison in one sentence."""
        both = [change for change in self.changes if change.before and change.after]
        worse, better = sum(change.worse for change in both), sum(change.better for change in both)
        alone = [
            sum(side is None for side in sides)
            for sides in (
                [change.after for change in self.changes],
                [change.before for change in self.changes],
            )
        ]
        return (
            f"{worse} worse, {better} better, {len(both) - worse - better} with other counts, "
            f"{self.same} alike; {alone[0]} only in {self.before.info.id}, {alone[1]} only in "
            f"{self.after.info.id}"
        )


def compare(before: SavedRun, after: SavedRun) -> Comparison:
    """Compare two runs cell by cell."""
    first, second = _runtime(before), _runtime(after)
    runtimes = (first, second) if first and second and first != second else None

    def name(cell: str, runtime: str) -> str:
        return cell.replace(f"/{runtime}/", "/*/") if runtimes else cell

    left = {name(result.plan.id, result.plan.runtime): _side(result) for result in before.results}
    right = {name(result.plan.id, result.plan.runtime): _side(result) for result in after.results}
    both = left.keys() & right.keys()
    changes = [
        Change(cell, left.get(cell), right.get(cell))
        for cell in {**left, **right}
        if _measured(left.get(cell)) != _measured(right.get(cell))
    ]
    changes.sort(
        key=lambda change: (
            not change.worse,
            not change.better,
            change.before is None or change.after is None,
        )
    )
    return Comparison(
        before,
        after,
        tuple(changes),
        len({*left, *right}) - len(changes),
        runtimes,
        (sum(left[cell].seconds for cell in both), sum(right[cell].seconds for cell in both)),
        frozenset(
            name(each.id, each.runtime)
            for run in (before, after)
            for each in run.info.not_applicable
        ),
    )


def _runtime(run: SavedRun) -> str | None:
    """Return the runtime of a run, or ``None`` if its cells have several."""
    found = {result.plan.runtime for result in run.results}
    return found.pop() if len(found) == 1 else None


def as_text(comparison: Comparison) -> str:
    """Return the comparison for a terminal."""
    return "\n".join(visible(line) for line in _lines(comparison))


def as_page(comparison: Comparison) -> str:
    """Return the comparison as a page."""
    runs = (comparison.before, comparison.after)
    return render_template(
        "compare.html.j2",
        comparison=comparison,
        runs=[(facts(run.info), summarise(run).sentence) for run in runs],
    )


def write_comparison(comparison: Comparison) -> Path:
    """Write the page beside the later run's report. Returns the file.

    Raises:
        ReportError: the page cannot be written.
    """
    file = comparison.after.directory / f"compare-{comparison.before.directory.name}.html"
    try:
        write_whole(file.parent, file.name, as_page(comparison))
    except OSError as error:
        raise ReportError(
            f"cannot write {file}: {error.strerror}; is the folder writable?"
        ) from error
    return file


def _lines(comparison: Comparison) -> Iterator[str]:
    yield f"before: {comparison.before.info.id}: {summarise(comparison.before).sentence}"
    yield f"after:  {comparison.after.info.id}: {summarise(comparison.after).sentence}"
    yield ""
    width = max((len(change.id) for change in comparison.changes), default=0)
    sides = [
        (side.text if side else "not run")
        for change in comparison.changes
        for side in (change.before,)
    ]
    column = max(map(len, sides), default=0)
    for change, before in zip(comparison.changes, sides, strict=True):
        word = "WORSE" if change.worse else "better" if change.better else ""
        yield (
            f"{word:<6}  {change.id:<{width}}  {before:<{column}}  →  "
            f"{change.after.text if change.after else 'not run'}"
        )
    yield f"{comparison.sentence}   (lost / duplicated)"
    if comparison.judged:
        yield comparison.judged


def _side(result: CellResult) -> ComparedResult:
    counts = result.judgement.account.counts
    lost, duplicated = (counts["lost"], counts["duplicated"]) if counts["offered"] else (None, None)
    return ComparedResult(
        outcome(result.verdict), lost, duplicated, result.verdict.reason, result.seconds
    )


def _measured(side: ComparedResult | None) -> tuple[Outcome, int | None, int | None] | None:
    return (side.outcome, side.lost, side.duplicated) if side else None


def _rank(side: ComparedResult | None) -> int:
    return WORST.index(side.outcome) if side else len(WORST)


def _shown(count: int | None) -> str:
    return "?" if count is None else str(count)
