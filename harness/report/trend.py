"""``trend.html`` beside the runs: what broke when, and since which commit; seconds and counts of
each cell over runs.

All of it comes from ``history.jsonl`` (see :mod:`harness.report.breaks`), also of runs whose
folders are gone. Lines of older versions lack commits, seconds and counts; they are shown without.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from harness.latest import is_marked
from harness.model import safe_files
from harness.report.as_html import INDEX, TREND, render_template
from harness.report.breaks import HISTORY_FILE, append_history
from harness.report.index import is_ours, write_index
from harness.report.summary import GREEN, SIGNS, WORST, Outcome, counted
from harness.saved import SWEEP_FILE, check_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from harness.report.breaks import BreakComparison
    from harness.saved import SavedRun

MOST_NAMED: Final = 5
"""How many numbers of lines a message names."""
MOST_RUNS: Final = 60
"""How many runs the page shows: the newest."""
STEP, HIGH = 9, 26
"""Width of one run in a strip, and the height of a strip, in px."""


class TrendError(Exception):
    """There is no history to show; the message is one line that says what to do."""


@dataclass(frozen=True, slots=True)
class PastRun:
    """One run, from its line in the history; a value that the line lacks is null. ``link``: its
    page, if that exists.
    """

    run: str
    started: str
    commit: str | None
    seconds: float | None
    cells: dict[str, Outcome]
    """The worst outcome of each cell's seeds, by the cell's id without its seed."""
    figures: dict[str, dict[str, Any]]
    complete: bool
    link: str | None = None

    @property
    def red(self) -> int:
        """How many cells were not green."""
        return sum(outcome not in GREEN for outcome in self.cells.values())

    @property
    def at(self) -> str:
        """The run and its commit, as text."""
        return f"{self.run} ({self.commit[:10]})" if self.commit else self.run

    def counts(self, cell: str) -> str:
        """Return lost / duplicated of a cell; empty if the line lacks them."""
        told = [self.figures.get(cell, {}).get(name) for name in ("lost", "duplicated")]
        return " / ".join(map(str, told)) if all(isinstance(each, int) for each in told) else ""

    def text(self, cell: str) -> str:
        """Return the outcome of a cell in this run, with counts and seconds, as text."""
        if cell not in self.cells:
            return f"{self.at}: not run"
        figures = self.figures.get(cell, {})
        told = [
            f"{figures[name]} {name}"
            for name in ("lost", "duplicated")
            if isinstance(figures.get(name), int)
        ]
        seconds = _number(figures.get("seconds"))
        told += [f"{seconds:.1f} s"] if seconds is not None else []
        return f"{self.at}: {', '.join([str(self.cells[cell]), *told])}"


@dataclass(frozen=True, slots=True)
class BrokenCell:
    """A cell that was not green in consecutive runs. ``before``: the last run before in which it
    was green, or null.
    """

    cell: str
    outcome: Outcome
    first: PastRun
    before: PastRun | None
    mended: PastRun | None
    """The run in which the cell was green again; null if there is none yet."""

    @property
    def sentence(self) -> str:
        """When it broke, since which commit, and until when."""
        since = f"since {self.first.at}"
        if self.before is not None:
            since += f"; it was green in {self.before.at}"
        else:
            since += ", the first run that has it"
        return f"{since}; green again in {self.mended.at}" if self.mended else since


@dataclass(frozen=True, slots=True)
class Strip:
    """One cell over the runs: squares (x, class, title), and a line of its seconds (``points`` of a
    polyline, in px).
    """

    cell: str
    now: Outcome
    counts: str
    """Lost / duplicated in the last run that has the cell; empty if unknown."""
    squares: tuple[tuple[int, str, str], ...]
    points: str
    longest: float | None


def write_trend(reports: Path) -> Path:
    """Write the page beside the runs.

    Raises:
        TrendError: there is no history, or a page of somebody else's has the name.
        OSError: the page cannot be written.
    """
    past, damaged = read_past(reports)
    if not past:
        raise TrendError(_why_none(reports, damaged))
    if not is_ours(reports, TREND):
        raise TrendError(f"{reports / TREND} is not lostack's: move it away")
    safe_files.write_whole(reports, TREND, render(past, damaged))
    return reports / TREND


def _why_none(reports: Path, damaged: Sequence[int]) -> str:
    """Say why a folder has no history of runs, and what to do."""
    file = reports / HISTORY_FILE
    if damaged:
        return (
            f"{file} is damaged: {_lines(damaged)} cannot be read, and it has no other lines; "
            "repair the file, or move it away"
        )
    if safe_files.is_file(reports, SWEEP_FILE):
        return (
            f"{reports} is a sweep, and a sweep has no history; lostack report shows its findings"
        )
    written = "lostack run, check and regressions write it, a sweep or a soak does not"
    return f"{file} has no runs: {written}; give the folder that was their --reports"


def _lines(numbers: Sequence[int]) -> str:
    more = f" and {len(numbers) - MOST_NAMED} more" if len(numbers) > MOST_NAMED else ""
    return (
        f"line{'' if len(numbers) == 1 else 's'} {', '.join(map(str, numbers[:MOST_NAMED]))}{more}"
    )


def append_run(run: SavedRun, breaks: BreakComparison) -> str | None:
    """Append a run to the history beside it, and draw the trend anew. Return a warning if that
    cannot be done.
    """
    if trouble := append_history(run, breaks):
        return trouble
    try:
        write_trend(run.directory.parent)
        if is_marked(run.directory.parent) and is_ours(run.directory.parent, INDEX):
            write_index(run.directory.parent)  # now it has a trend to lead to
    except (OSError, TrendError) as error:
        return f"{TREND} cannot be written: {error}"
    return None


def read_past(reports: Path) -> tuple[list[PastRun], list[int]]:
    """Return the runs in the history, the oldest first, and the numbers of the lines that cannot be
    read.

    Raises:
        TrendError: the history is there and cannot be opened.
    """
    try:
        lines = safe_files.read_bytes(reports, HISTORY_FILE).decode("utf-8", "replace").split("\n")
    except (FileNotFoundError, NotADirectoryError):
        return [], []
    except OSError as error:
        raise TrendError(f"cannot read {reports / HISTORY_FILE}: {error.strerror}") from error
    read = {
        number: _past(line, reports) for number, line in enumerate(lines, start=1) if line.strip()
    }
    found = [one for one in read.values() if one is not None]
    return sorted(found, key=lambda one: (one.started, one.run)), [
        number for number, one in read.items() if one is None
    ]


def left_out(damaged: Sequence[int], file: str = HISTORY_FILE) -> str:
    """Say which lines of a history cannot be read.

    >>> left_out([3]), left_out([1, 2])
    ('line 3 of history.jsonl cannot be read, and is left out', 'lines 1, 2 of history.jsonl cannot
    be read, and are left out')
    """
    return (
        f"{_lines(damaged)} of {file} cannot be read, and {'is' if len(damaged) == 1 else 'are'} "
        "left out"
    )


def _past(line: str, reports: Path) -> PastRun | None:
    try:
        data = safe_files.parse_json(line)
        cells = {str(name): _worst(counts) for name, counts in data["cells"].items()}
        figures = {str(name): dict(each) for name, each in data.get("figures", {}).items()}
        run = str(data["run"])
        check_time(str(data["started"]))
        link = (
            f"{quote(run)}/report.html"
            if "/" not in run and safe_files.is_file(reports, f"{run}/report.html")
            else None
        )
        commit = data.get("commit")
        return PastRun(
            run,
            str(data["started"]),
            str(commit) if commit else None,
            _number(data.get("seconds")),
            cells,
            figures,
            data.get("complete") is True,
            link,
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _worst(counts: dict[str, int]) -> Outcome:
    """Return the worst outcome of a cell's seeds.

    Raises:
        ValueError: there are no outcomes.
    """
    return min((Outcome(name) for name in counts), key=WORST.index)


def _number(value: object) -> float | None:
    return (
        float(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
        else None
    )


def breaks_of_cell(past: Sequence[PastRun]) -> list[BrokenCell]:
    """Return every break of a cell: first those that are still broken, then the newest."""
    found = [
        broke
        for cell in dict.fromkeys(name for one in past for name in one.cells)
        for broke in _of(cell, past)
    ]
    return sorted(
        sorted(found, key=lambda each: each.first.started, reverse=True),
        key=lambda each: each.mended is not None,
    )


def _of(cell: str, past: Sequence[PastRun]) -> Iterator[BrokenCell]:
    green: PastRun | None = None
    first: PastRun | None = None
    for one in (one for one in past if cell in one.cells):
        if one.cells[cell] not in GREEN:
            first = first or one
        else:
            if first is not None:
                yield BrokenCell(cell, first.cells[cell], first, green, one)
            green, first = one, None
    if first is not None:
        yield BrokenCell(cell, first.cells[cell], first, green, None)


def strips(past: Sequence[PastRun]) -> list[Strip]:
    """Return a strip for every cell of these runs: first the red cells, then those that ever
    changed, then the rest.
    """
    cells = dict.fromkeys(name for one in reversed(past) for name in one.cells)
    return sorted(
        (_strip(cell, past) for cell in cells),
        key=lambda each: (each.now in GREEN, not _changes(each), each.cell),
    )


def _changes(strip: Strip) -> bool:
    return len({colour for _, colour, _ in strip.squares if colour != "none"}) > 1


def _strip(cell: str, past: Sequence[PastRun]) -> Strip:
    told = ((n, _number(one.figures.get(cell, {}).get("seconds"))) for n, one in enumerate(past))
    seconds = {n * STEP + STEP // 2: value for n, value in told if value is not None}
    longest = max(seconds.values(), default=None)
    points = " ".join(
        f"{x},{HIGH - 1 - (HIGH - 2) * value / (longest or 1):.1f}" for x, value in seconds.items()
    )
    squares = tuple(
        (n * STEP, str(one.cells.get(cell, "none")), one.text(cell)) for n, one in enumerate(past)
    )
    last = next(one for one in reversed(past) if cell in one.cells)
    return Strip(
        cell,
        last.cells[cell],
        last.counts(cell),
        squares,
        points if len(seconds) > 1 else "",
        longest,
    )


def render(past: Sequence[PastRun], damaged: Sequence[int] = ()) -> str:
    """Return the page of these runs, the oldest first."""
    shown = list(past[-MOST_RUNS:])
    longest = max((one.seconds or 0.0 for one in shown), default=0.0) or 1.0
    bars = [
        (
            n * STEP,
            60 * (one.seconds or 0.0) / longest,
            "broken" if one.red else "kept",
            f"{one.at}, {one.started}: {_told(one)}",
        )
        for n, one in enumerate(shown)
    ]
    every = strips(shown)
    return render_template(
        "trend.html.j2",
        runs=shown,
        bars=bars,
        longest=longest,
        breaks=breaks_of_cell(past),
        signs={str(name): sign for name, sign in SIGNS.items()},
        green={str(name) for name in GREEN},
        changing=[each for each in every if _changes(each) or each.now not in GREEN],
        steady=[each for each in every if not _changes(each) and each.now in GREEN],
        wide=len(shown) * STEP,
        high=HIGH,
        step=STEP,
        earlier=len(past) - len(shown),
        last=shown[-1],
        damaged=left_out(damaged) if damaged else "",
    )


def _told(one: PastRun) -> str:
    seconds = f", {one.seconds:.0f} s" if one.seconds is not None else ""
    return (
        f"{counted(len(one.cells), 'cell')}, {one.red} not "
        f"green{seconds}{'' if one.complete else ', PARTIAL'}"
    )
