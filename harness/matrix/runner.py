"""The runner: it runs cells, judges them, and saves the run. It knows systems only by their
interfaces.
"""

from __future__ import annotations

import datetime as dt
import itertools
import os
import platform
import queue
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import psutil

from harness.interfaces import LimitsDeployments, PreparesForCells, TakesOneCell
from harness.judge.verdict import Kind
from harness.knowledge import knowledge
from harness.latest import point_latest
from harness.matrix.failing import end_history, fail_at_once, failing_alone
from harness.matrix.keeping import clean, forget_unbegun, tidy_cell
from harness.matrix.listener import OneAtATime, Progress
from harness.matrix.long_cells import LongCells
from harness.matrix.room import behind, cannot_write, full_disk, new_run
from harness.matrix.threads import WATCH_S, Thread, join
from harness.model import events as kinds
from harness.model.ending import RUNNER
from harness.model.events import CellPhase
from harness.model.failures import CellFailure, EnvironmentFailure
from harness.model.history import HISTORY, HistoryError, HistoryWriter
from harness.model.keep import Keep
from harness.model.plan import PLAN_FILE, plan_of
from harness.model.safe_files import write_whole
from harness.model.scenario import SECURED, Deployment
from harness.model.secrets import masked
from harness.model.waiting import WaitCancelledError, cancellable
from harness.saved import (
    ASIDE,
    CELLS,
    RUN_FILE,
    RunInfo,
    judge_cell,
    load_run,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from harness.interfaces import CellRun, Deployed, Launcher
    from harness.model.cell import Cell
    from harness.saved import CellResult, NotRun, SavedRun


T = TypeVar("T")
_Group: TypeAlias = "tuple[Cell, ...]"
"""Cells that run at once because they share one fault, the death of their shared broker; usually
one cell.
"""
_Turn: TypeAlias = "tuple[Deployment, str, queue.SimpleQueue[_Group]]"
"""One deployment in a lane: its kind, its name, and the cells that wait for it."""
_Play: TypeAlias = "Callable[[Path, HistoryWriter], None]"
"""Plays a cell: its folder, and the runner's history of it."""

UNPROVED = frozenset({Kind.VOID, Kind.STUCK})
"""Verdicts after which the state of a deployment that cells may kill is unknown."""
ASIDE_NICE = 10
"""The niceness at which a system is prepared while the previous system's cells run."""
ONE_AT_A_TIME = (Deployment.CLUSTER, Deployment.APART, Deployment.SMALL, Deployment.TRACED)
OF_ONE_BROKER = (Deployment.SHARED, Deployment.OWN)
WORTH_A_BROKER = 2
"""How many cells that kill their broker must wait before another broker starts: a start takes as
long as one cell.
"""
OWN_LANES = 2
"""How many brokers, at most, run at once for cells that kill theirs. The second one runs when no
cell needs several brokers any more: two cores cannot drive both. A launcher may ask for fewer.
"""


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
    if twice:  # they would write into one history
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
        self._progress = OneAtATime(progress)
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._phases: dict[str, float] = {}
        self._results: dict[str, CellResult] = {}
        self._lanes: list[Thread] = []
        self._long = LongCells()
        self._lacking: dict[str, str] = {}
        """Cells that cannot run because the machine lacks something that only they
        need: id → what.
        """
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
        )

    def go(self) -> SavedRun:
        """Run all lanes, then read the run back."""
        self._save()
        try:
            for system in self.plan.systems[:1]:
                self._prepare(system)
                self._note_versions(system)
            if all(cell.id in self._lacking for cell in self.plan.cells):
                raise EnvironmentFailure(next(iter(self._lacking.values()), "no cell is planned"))
            self._progress.planned(self.plan.cells)
            for system, following in itertools.zip_longest(
                self.plan.systems, self.plan.systems[1:]
            ):
                self._run_system(system, following)
            self._run_again()
        except KeyboardInterrupt:
            self._stop.set()
            self._info = replace(self._info, interrupted=True)
            with suppress(
                EnvironmentFailure
            ):  # it may be the last thing that is written of this run
                self._save()
            if not all(
                lane.over.is_set() for lane in self._started()
            ):  # Ctrl-C again: nobody waits for the cells under way
                raise
        if self._failure is not None:
            with suppress(EnvironmentFailure):  # the failure before is the one to tell
                self._save()
            if isinstance(self._failure, EnvironmentFailure) and self._results:
                raise RunBrokenError(str(self._failure), self.directory) from self._failure
            raise self._failure
        self._save(complete=not self._stop.is_set() and len(self._results) == len(self.plan.cells))
        return load_run(self.directory, judged=self._results)

    def _run_system(self, system: Launcher, following: Launcher | None) -> None:
        """Run the cells of a system, and prepare the next system at the same time, which mostly
        waits for downloads.
        """
        if self._is_over():
            return
        self._void_lacking(system)
        if following is None:
            self._run_lanes(system, self.plan.cells)
            return
        ahead = Thread(
            target=self._prepare_ahead, args=(following,), name=f"prepare-{following.name}"
        )
        ahead.start()
        self._run_lanes(system, self.plan.cells)
        if not self._is_over():
            join([ahead])
            self._note_versions(following)

    def _prepare_ahead(self, system: Launcher) -> None:
        try:
            os.nice(ASIDE_NICE)  # on Linux this thread's own, and of the programs that it starts
            self._prepare(system)
        except EnvironmentFailure as error:  # the other systems' cells do not need it
            self._lacking |= {cell.id: str(error) for cell in self._cells_of(system)}
        except BaseException as error:  # noqa: BLE001 - see _lane
            self._fail(error)

    def _prepare(self, system: Launcher) -> None:
        """Download and make what a system needs."""

        def prepare() -> None:
            system.prepare(self._progress.say)
            if isinstance(system, PreparesForCells):
                self._lacking |= system.prepare_for(self._cells_of(system), self._progress.say)

        self._timed(f"set-up-{system.name}", prepare)

    def _void_lacking(self, system: Launcher) -> None:
        """Give the cells for which the machine lacks something their verdict: void, with that
        reason.
        """
        mine = [cell for cell in self._cells_of(system) if cell.id in self._lacking]
        for because, count in Counter(self._lacking[cell.id] for cell in mine).items():
            self._progress.say(f"cells that cannot run on this machine: {count} ({because})")
        for cell in mine:
            because = f"the machine lacks something that this cell needs: {self._lacking[cell.id]}"
            self._one(cell, partial(fail_at_once, because))

    def _note_versions(self, system: Launcher) -> None:
        self._info = replace(self._info, versions=self._info.versions | system.versions())

    def _save(self, *, complete: bool = False) -> None:
        seconds = round(time.monotonic() - self._began, 3)
        self._info = replace(
            self._info, complete=complete, seconds=seconds, phases=dict(self._phases)
        )
        try:
            self._info.save(self.directory)
        except OSError as error:
            raise cannot_write(self.directory, error) from error

    def _run_again(self) -> None:
        """Run those cells once more that did not wait long enough, as later cells showed. Their
        first results are moved away.
        """
        wanted = self.plan.again() if not self._is_over() else ()
        cells = tuple(cell for cell in self.plan.cells if cell.id in wanted)
        if not cells:
            return
        self._progress.say(
            "run again, because another cell showed a longer silence than these had waited for:"
        )
        self._progress.planned(cells)
        (self.directory / ASIDE).mkdir()
        for cell in cells:
            self._results.pop(cell.id).directory.rename(self.directory / ASIDE / cell.slug)
        for system in self.plan.systems:
            self._run_lanes(system, cells, turn="-once-more")

    def _run_lanes(self, system: Launcher, cells: Sequence[Cell], turn: str = "") -> None:
        """Run cells in lanes. A lane has one deployment at a time; cells share a broker, or kill
        one of a few.
        """
        waiting = {need: self._waiting(system, need, cells) for need in Deployment}
        lanes = Counter[Deployment]()
        for needs, deployments, workers in self._plan_of_lanes(system):
            wanted = [need for need in needs if not waiting[need].empty()]
            count = sum(waiting[need].qsize() for need in wanted) - max(
                (lanes[need] for need in wanted), default=0
            )
            for _ in range(min(deployments, count)):
                lanes.update(wanted)
                turns = [
                    (need, f"{system.name}-{need}-{lanes[need]}{turn}", waiting[need])
                    for need in wanted
                ]
                self._lanes.append(
                    Thread(target=self._lane, args=(system, turns, workers), name=turns[0][1])
                )
        try:
            for lane in self._lanes:
                if lane.ident is None:
                    lane.start()
            join(self._lanes)
        except BaseException:
            self._stop.set()
            join(self._started())
            raise

    def _plan_of_lanes(self, system: Launcher) -> Sequence[tuple[tuple[Deployment, ...], int, int]]:
        """Return the kinds of lanes: the deployments in turn, the number of such lanes, the workers
        in each.
        """
        jobs = self.plan.jobs
        if (
            isinstance(system, TakesOneCell) and system.one_cell
        ):  # one lane begins with those that kill it; the others help
            return ((OF_ONE_BROKER[::-1], 1, 1), (OF_ONE_BROKER, jobs - 1, 1))
        own = system.own_at_once if isinstance(system, LimitsDeployments) else OWN_LANES
        helps = (Deployment.OWN,) if min(own, jobs) > 1 else ()
        return (
            ((Deployment.SHARED,), 1, jobs),
            (SECURED, 1, 1),
            ((Deployment.OWN,), 1, 1),
            # one after the other: three or four brokers are enough at once
            ((*ONE_AT_A_TIME, *helps), 1, 1),
        )

    def _waiting(
        self, system: Launcher, need: Deployment, planned: Sequence[Cell]
    ) -> queue.SimpleQueue[_Group]:
        """Return the cells of a system that need this deployment. Cells that share one broker's
        death form a group.
        """
        groups: dict[object, list[Cell]] = {}
        for cell in planned:
            if (
                cell.scenario.deployment is need
                and self._belongs(cell, system)
                and cell.id not in self._lacking
            ):
                groups.setdefault(cell.dies_with or cell.id, []).append(cell)
        waiting, at_once = queue.SimpleQueue[_Group](), max(1, self.plan.jobs)
        for cells in groups.values():
            for at in range(0, len(cells), at_once):
                waiting.put(tuple(cells[at : at + at_once]))
        return waiting

    def _fail(self, error: BaseException) -> None:
        """End the run. The first reason counts; a full disk comes before it in the message."""
        full = full_disk(self.directory)
        if full and isinstance(error, EnvironmentFailure | HistoryError):
            told = EnvironmentFailure(behind(full, str(error)))
            told.__cause__ = error
            error = told
        self._failure = self._failure or error
        self._stop.set()

    def _is_over(self) -> bool:
        """Whether no further cell may begin."""
        return self._stop.is_set() or self.plan.enough()

    def _belongs(self, cell: Cell, system: Launcher) -> bool:
        return len(self.plan.systems) == 1 or cell.system == system.name

    def _cells_of(self, system: Launcher) -> list[Cell]:
        return [cell for cell in self.plan.cells if self._belongs(cell, system)]

    def _started(self) -> Sequence[Thread]:
        return [lane for lane in self._lanes if lane.ident is not None]

    def _lane(self, system: Launcher, turns: Sequence[_Turn], workers: int) -> None:
        """Deploy, and let workers run cells on it. If a killed broker does not come back, the next
        cells get a new deployment.
        """
        try:
            for turn, (need, name, waiting) in enumerate(turns):
                if turn and waiting.qsize() < (
                    1 if need.shared else WORTH_A_BROKER
                ):  # whoever began with them runs them
                    continue
                for number in itertools.count(1):
                    self._deployment(
                        system,
                        need,
                        name if number == 1 else f"{name}-again-{number}",
                        waiting,
                        workers,
                    )
                    if self._is_over():
                        return
                    if need.shared or waiting.empty():
                        break
        except WaitCancelledError:
            return
        except BaseException as error:  # noqa: BLE001 - whatever ends a lane ends the run, and is raised by it
            self._fail(error)

    def _deployment(
        self,
        system: Launcher,
        need: Deployment,
        name: str,
        waiting: queue.SimpleQueue[_Group],
        workers: int,
    ) -> None:
        self._progress.say(f"starting {name}")
        with cancellable(self._stop):
            deployed = self._timed(
                f"deploy-{name}", lambda: system.deploy(need, self.directory / "deployments" / name)
            )
        try:
            lasting = need.shared
            threads = [
                Thread(target=self._work, args=(deployed, waiting, lasting)) for _ in range(workers)
            ]
            for thread in threads:
                thread.start()
            self._watch(deployed, threads)
        finally:
            deployed.close()

    def _watch(self, deployed: Deployed, threads: Sequence[Thread]) -> None:
        """Wait for the workers. If the deployment fails, end them at once."""
        try:
            deployed.check()
            for thread in threads:
                while not thread.over.wait(WATCH_S):
                    deployed.check()
                    self._long.tell(self._progress.say)
        except EnvironmentFailure:
            self._stop.set()
            join(threads)
            raise

    def _work(self, deployed: Deployed, waiting: queue.SimpleQueue[_Group], lasting: bool) -> None:  # noqa: FBT001 - of a thread
        """Run cells until none waits. A deployment that cells may kill is given up after a cell
        that proved nothing.
        """
        while not self._is_over():
            try:
                group = waiting.get_nowait()
            except queue.Empty:
                return
            if not lasting:
                deployed.together(group)
            besides = [
                Thread(target=self._one, args=(cell, partial(self._play, deployed, cell)))
                for cell in group[1:]
            ]
            for thread in besides:
                thread.start()
            self._one(group[0], partial(self._play, deployed, group[0]))
            join(besides)
            if not lasting and any(self._unproved(cell) for cell in group):
                return

    def _unproved(self, cell: Cell) -> bool:
        result = self._results.get(cell.id)
        return result is None or result.verdict.kind in UNPROVED

    def _one(self, cell: Cell, play: _Play) -> None:
        """Run one cell and judge it."""
        try:
            directory = self.directory / CELLS / cell.slug
            if not self._results:  # the first ones
                # a failure here is reported when the reports are written
                point_latest(self.directory, self._info)
            self._progress.began(cell, directory)
            result = self._run_cell(cell, directory, play)
            self._results[result.plan.id] = result
            tidy_cell(result, self.plan.keep)
            self._progress.ended(result)
        except BaseException as error:  # noqa: BLE001 - see _lane
            self._fail(error)

    def _run_cell(self, cell: Cell, directory: Path, play: _Play) -> CellResult:
        with HistoryWriter(directory / HISTORY / RUNNER, cell=cell.id, by="runner") as history:
            plan = plan_of(cell)
            try:
                write_whole(directory, PLAN_FILE, plan.to_json())
            except OSError as error:
                raise cannot_write(directory, error) from error
            history.write(kinds.CELL, phase=CellPhase.BEGUN, seal=plan.seal)
            play(directory, history)
            end_history(history, directory)
        return judge_cell(directory)

    def _play(
        self, deployed: Deployed, cell: Cell, directory: Path, history: HistoryWriter
    ) -> None:
        cell_run: CellRun | None = None
        try:
            with failing_alone(history, directory), cancellable(self._stop):
                cell_run = deployed.cell_run(cell, directory, history)
                with self._long.running(cell, cell_run):
                    self._steps(cell_run, history)
        finally:
            if cell_run is not None:
                with failing_alone(history, directory):
                    cell_run.close()

    def _steps(self, cell_run: CellRun, history: HistoryWriter) -> None:
        steps = (
            (CellPhase.PREPARED, cell_run.prepare),
            (CellPhase.LOADED, cell_run.load),
            (CellPhase.FAULTED, cell_run.inject),
            (CellPhase.DRAINED, cell_run.drain),
            (CellPhase.OBSERVED, cell_run.observe),
        )
        for phase, step in steps:
            if self._stop.is_set():
                raise WaitCancelledError(phase)
            step()
            # a full disk may have cut the programs' last log lines
            if full_disk(self.directory):
                raise CellFailure("the last lines of histories and logs may be missing")
            history.write(kinds.CELL, phase=phase)

    def _timed(self, name: str, act: Callable[[], T]) -> T:
        since = time.monotonic()
        try:
            return act()
        finally:
            self._phases[name] = round(time.monotonic() - since, 3)


def _machine() -> dict[str, str]:
    memory = psutil.virtual_memory().total / (1 << 30)
    return {
        "cores": str(os.cpu_count()),
        "memory": f"{memory:.0f} GiB",
        "system": platform.platform(terse=True),
    }
