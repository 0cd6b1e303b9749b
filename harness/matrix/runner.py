"""The runner: it runs cells, judges them, and saves the run. It knows systems only by their
interfaces.
"""

from __future__ import annotations

import datetime as dt
import itertools
import os
import platform
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import psutil

from harness.knowledge import knowledge
from harness.matrix.cell_runner import CellRunner
from harness.matrix.keeping import clean, forget_unbegun
from harness.matrix.lanes import Lanes
from harness.matrix.preparation import Preparation
from harness.matrix.room import cannot_write, new_run
from harness.matrix.run_state import RunState
from harness.matrix.threads import join
from harness.model.failures import EnvironmentFailure
from harness.model.keep import Keep
from harness.model.secrets import masked
from harness.saved import (
    ASIDE,
    RUN_FILE,
    RunInfo,
    load_run,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from harness.interfaces import Launcher
    from harness.matrix.listener import Progress
    from harness.model.cell import Cell
    from harness.saved import NotRun, SavedRun


class RunBrokenError(EnvironmentFailure):
    """The deployments failed after some cells had been judged. ``directory``: the saved run, which
    is partial.
    """

    def __init__(self, because: str, directory: Path) -> None:
        super().__init__(because)
        self.directory = directory


@dataclass(frozen=True)
class RunPlan:
    """The cells to run, and where the run is saved.

    ``systems``: the systems of the cells, which name them; a single system runs all cells.
    ``jobs``: how many cells share a broker at once; if a deployment takes one cell at a time, how
    many cells run in all. Cells whose broker dies have brokers of their own, or share one with the
    other semantics of their scenario.
    """

    systems: tuple[Launcher, ...]
    cells: tuple[Cell, ...]
    not_applicable: tuple[NotRun, ...]
    reports: Path
    jobs: int
    command: str
    seeds: tuple[int, ...]
    records: int
    untried: tuple[str, ...] = ()
    """A sentence for each stage that none of these cells kills."""
    again: Callable[[], Collection[str]] = lambda: ()
    """Called when all cells have run; returns the ids of the cells that must run once more."""
    enough: Callable[[], bool] = lambda: False
    """Called before a cell begins; true ends the run before that cell, and the run is
    incomplete.
    """
    keep: Keep = Keep.BROKEN
    """Of which cells everything stays."""
    others: tuple[Cell, ...] = ()
    """What else the same command may run. If all of ``cells`` lack something, they are void; if all
    of these do, too, nothing could be run at all.
    """


def run(plan: RunPlan, progress: Progress) -> SavedRun:
    """Run all cells of a plan and judge them.

    Ctrl-C ends the cells under way; the returned run then has ``info.interrupted`` true.

    Raises:
        EnvironmentFailure: nothing could be run at all.
        RunBrokenError: the deployments broke down after some cells had been judged.
        HistoryError: a history could not be written (a full disk).
        ValueError: two cells have the same id.
    """
    twice = [slug for slug, count in Counter(cell.slug for cell in plan.cells).items() if count > 1]
    if twice:  # both would write into one history
        raise ValueError(f"{twice[0]} is planned twice")
    knowledge()  # where it cannot be had, nothing could be judged
    under_way = _Run(plan, progress)
    try:
        saved = under_way.go()
    except Exception:  # of a run that ends before its first cell nothing stays
        forget_unbegun(under_way.directory, RUN_FILE)
        raise
    clean(saved.directory)
    return saved


class _Run:
    def __init__(self, plan: RunPlan, progress: Progress) -> None:
        self.plan = plan
        self.directory = new_run(plan.reports)
        self._began = time.monotonic()
        self._info = RunInfo(
            id=self.directory.name,
            started=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            seconds=0.0,
            complete=False,
            planned=tuple(cell.id for cell in plan.cells),
            not_applicable=plan.not_applicable,
            untried=plan.untried,
            seeds=plan.seeds,
            records=plan.records,
            versions={},
            machine=_machine(),
            command=masked(plan.command),
            jobs=plan.jobs,
        )
        self._state = RunState(self.directory, progress, plan.enough)
        self._preparation = Preparation(self._state)
        self._cells = CellRunner(self._state, self._info, plan.keep)
        self._lanes = Lanes(self._state, self._cells, plan.jobs)

    def go(self) -> SavedRun:
        """Run all cells, then read the run back."""
        self._save()
        state, lacking = self._state, self._preparation.lacking
        try:
            for system in self.plan.systems[:1]:
                self._preparation.prepare(system, [*self._cells_of(system), *self.plan.others])
                self._note_versions(system)
            if all(cell.id in lacking for cell in (*self.plan.cells, *self.plan.others)):
                raise EnvironmentFailure(next(iter(lacking.values()), "no cell is planned"))
            state.progress.planned(self.plan.cells)
            for system, following in itertools.zip_longest(
                self.plan.systems, self.plan.systems[1:]
            ):
                self._run_system(system, following)
            self._run_again()
        except KeyboardInterrupt:
            state.stop.set()
            self._info = replace(self._info, interrupted=True)
            with suppress(EnvironmentFailure):  # it may be the last that is written of this run
                self._save()
            if not self._lanes.are_over:  # Ctrl-C again: nobody waits for the cells under way
                raise
        if state.failure is not None:
            with suppress(EnvironmentFailure):  # the failure before is the one to tell
                self._save()
            if isinstance(state.failure, EnvironmentFailure) and state.results:
                raise RunBrokenError(str(state.failure), self.directory) from state.failure
            raise state.failure
        self._save(complete=not state.stop.is_set() and len(state.results) == len(self.plan.cells))
        return load_run(self.directory, judged=state.results)

    def _run_system(self, system: Launcher, following: Launcher | None) -> None:
        """Run the cells of a system, and prepare the next system at the same time, which mostly
        waits for downloads.
        """
        if self._state.is_over:
            return
        cells = self._cells_of(system)
        for cell, because in self._preparation.without(cells):
            self._cells.void(cell, f"the machine lacks something that this cell needs: {because}")
        if following is None:
            self._run_lanes(system, cells)
            return
        ahead = self._preparation.begin(following, self._cells_of(following))
        self._run_lanes(system, cells)
        if not self._state.is_over:
            join([ahead])
            self._note_versions(following)

    def _run_lanes(self, system: Launcher, cells: Sequence[Cell], turn: str = "") -> None:
        lacking = self._preparation.lacking
        self._lanes.run(system, [cell for cell in cells if cell.id not in lacking], turn)

    def _note_versions(self, system: Launcher) -> None:
        self._info = replace(self._info, versions=self._info.versions | system.versions())

    def _save(self, *, complete: bool = False) -> None:
        seconds = round(time.monotonic() - self._began, 3)
        self._info = replace(
            self._info, complete=complete, seconds=seconds, phases=dict(self._state.phases)
        )
        try:
            self._info.save(self.directory)
        except OSError as error:
            raise cannot_write(self.directory, error) from error

    def _run_again(self) -> None:
        """Run those cells once more that did not wait long enough, as later cells showed. Their
        first results are moved away.
        """
        wanted = self.plan.again() if not self._state.is_over else ()
        cells = tuple(cell for cell in self.plan.cells if cell.id in wanted)
        if not cells:
            return
        self._state.progress.say(
            "run again, because another cell showed a longer silence than these had waited for:"
        )
        self._state.progress.planned(cells)
        (self.directory / ASIDE).mkdir()
        for cell in cells:
            self._state.results.pop(cell.id).directory.rename(self.directory / ASIDE / cell.slug)
        for system in self.plan.systems:
            mine = [cell for cell in cells if self._belongs(cell, system)]
            self._run_lanes(system, mine, turn="-once-more")

    def _belongs(self, cell: Cell, system: Launcher) -> bool:
        return len(self.plan.systems) == 1 or cell.system == system.name

    def _cells_of(self, system: Launcher) -> list[Cell]:
        return [cell for cell in self.plan.cells if self._belongs(cell, system)]


def _machine() -> dict[str, str]:
    memory = psutil.virtual_memory().total / (1 << 30)
    return {
        "cores": str(os.cpu_count()),
        "memory": f"{memory:.0f} GiB",
        "system": platform.platform(terse=True),
    }
