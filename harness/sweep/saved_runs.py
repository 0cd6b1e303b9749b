"""Reads the saved runs of one sweep from its folder, and judges each once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.judge.verdict import Kind
from harness.model import events as kinds
from harness.model import safe_files
from harness.model.history import HISTORY, HistoryError, read_history
from harness.saved import ASIDE, RUN_FILE, load_run
from harness.sweep.points import tried
from harness.sweep.settings import DRY

if TYPE_CHECKING:
    from pathlib import Path

    from harness.model.writes import Point as Write
    from harness.saved import CellResult, SavedRun

DRY_RUNS = 3
FIRST = "dry-1"
"""The dry run of a declared pipeline that also waits for late results, to learn how long to
wait.
"""
WATCHED = "dry-watched"
"""A further dry run of a declared pipeline, in which a tracer writes down durable writes; that
slows the pipeline down.
"""


class SavedRuns:
    """The runs that a sweep has saved in its directory. No cell is judged twice."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._judged: dict[Path, CellResult] = {}

    def results(self, folder: str) -> list[CellResult]:
        """Return the judged cells of all runs in a folder of the sweep, in their order."""
        names = [f"{folder}/{name}" for name in safe_files.folders(self.directory, folder)]
        known = {str(where): result for where, result in self._judged.items()}
        there = [name for name in names if safe_files.exists(self.directory, f"{name}/{RUN_FILE}")]
        runs = [load_run(self.directory / name, judged=known) for name in there]
        for saved in runs:
            self.note(saved)
        return [result for saved in runs for result in saved.results]

    def note(self, run: SavedRun) -> None:
        """Remember the judged cells of a run: they are judged already when they are read."""
        self._judged |= {result.directory: result for result in run.results if result.ended}

    def dry_runs(self) -> list[CellResult]:
        """Return the runs without a fault that have ended, and that steps are found in."""
        found = [
            result
            for result in self.results(DRY)
            if result.ended and result.plan.scenario != WATCHED
        ]
        return found[:DRY_RUNS]

    def writes(self) -> tuple[tuple[str, Write], ...]:
        """Return the durable writes that a run without a fault has shown, by role: those that are
        tried behind each record.
        """
        watched = [
            result
            for result in self.results(DRY)
            if result.ended and result.plan.scenario == WATCHED
        ]
        if not watched:
            return ()
        lines = read_history(watched[0].directory / HISTORY).of(kinds.Writes)
        return tuple((line.role, write) for line in lines for write in tried(line))

    def put_aside_unreadable(self, folder: str) -> None:
        """Move the cells out of the runs in a folder whose history cannot be read."""
        for result in self.results(folder):
            if result.verdict.kind is Kind.VOID:
                try:
                    read_history(result.directory / HISTORY)
                except HistoryError:
                    self.put_aside(result)

    def put_aside(self, result: CellResult) -> None:
        """Move a cell out of its run, which then counts as not run."""
        self._judged.pop(result.directory, None)
        aside = result.directory.parents[1] / ASIDE
        aside.mkdir(exist_ok=True)
        result.directory.rename(aside / result.directory.name)

    def put_aside_run(self, directory: Path) -> None:
        """Move a whole run away, which then counts as not run."""
        self._judged = {
            where: result
            for where, result in self._judged.items()
            if not where.is_relative_to(directory)
        }
        (self.directory / ASIDE).mkdir(exist_ok=True)
        directory.rename(self.directory / ASIDE / directory.name)
