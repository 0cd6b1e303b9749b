"""One sweep of one pipeline: dry runs, the plan that follows from them, rounds of points, and what
was found.

Layout::

    reports/sweeps/<sweep>/sweep.json           the settings: enough to continue the sweep, or to
        report it again
    reports/sweeps/<sweep>/dry/<run>/           three runs without a fault, a saved run
    reports/sweeps/<sweep>/points/<run>/        the points, saved runs: one for each round and each
        --resume
    reports/sweeps/<sweep>/beside/<run>/        cells that shrink or confirm findings
    reports/sweeps/<sweep>/aside/<run>/         runs without a fault that failed when they ran side
        by side
    reports/sweeps/<sweep>/found/<name>.toml    findings as scenarios

Everything else is derived from these. However a sweep ends, its judged points are saved, and
``--resume`` runs the rest.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import TYPE_CHECKING

from harness.faults import NoFault
from harness.judge.verdict import Kind
from harness.matrix.progress import Listening
from harness.matrix.runner import RunPlan, run
from harness.model import safe_files
from harness.model.failures import UsageError
from harness.model.keep import Keep
from harness.pipelines.cells import DeclaredCell
from harness.saved import RunInfo
from harness.sweep.cells import DeclaredSweepCell, SweepCell, at_point, shares_death, sharing
from harness.sweep.classes import RunReason
from harness.sweep.lessons import Lessons
from harness.sweep.outcomes import Outcomes, outcome_of
from harness.sweep.planning import Planner
from harness.sweep.points import THEN
from harness.sweep.recovery import first_faults
from harness.sweep.saved_runs import DRY_RUNS, FIRST, WATCHED, SavedRuns
from harness.sweep.settings import BESIDE, DRY, FOUND, POINTS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from harness.interfaces import Launcher
    from harness.matrix.listener import Progress
    from harness.model.cell import Cell
    from harness.saved import CellResult, SavedRun
    from harness.sweep.outcomes import Outcome
    from harness.sweep.planning import Planned
    from harness.sweep.points import Point
    from harness.sweep.settings import SweepSettings


class DryRunError(Exception):
    """A run without a fault is not kept, so a sweep would prove nothing. ``result``: that run's
    cell.
    """

    def __init__(self, result: CellResult) -> None:
        super().__init__(result.verdict.reason)
        self.result = result


@dataclass
class Sweep:
    """One sweep. ``base``: a :class:`SweepCell` or a :class:`DeclaredSweepCell`, whose scenario has
    no fault.
    """

    directory: Path
    settings: SweepSettings
    base: Cell
    system: Launcher
    kills_brokers: bool = True
    failpoints: tuple[tuple[str, str], ...] = ()
    """The failpoints in its programs, by role and name."""
    again: Callable[[Sequence[Cell]], Collection[str]] = lambda _: ()
    alone: str = ""
    """Why its cells run one at a time; empty if they can run side by side."""
    keep: Keep = Keep.BROKEN
    """Of which points everything stays."""
    exit_first: bool = False
    """Whether no point begins after the first broken one of this run."""
    until_dry: int | None = None
    """How many points in turn may teach nothing before no further point begins; none: any."""
    interrupted: bool = field(default=False, init=False)
    """Whether Ctrl-C ended the sweep."""
    _broken: bool = field(default=False, init=False)
    """Whether a point of this run was broken."""
    _lessons: Lessons = field(default_factory=Lessons, init=False)
    saved: SavedRuns = field(init=False)
    """Its runs so far, as they are on disk."""
    _outcomes: dict[Path, Outcome] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.saved = SavedRuns(self.directory)

    def begin_in(self, directory: Path) -> None:
        """Save the sweep, of which nothing has run yet, in an empty directory."""
        self.directory = directory
        self.saved = SavedRuns(directory)
        self.settings.save(directory)

    # --- the dry runs -----------------------------------------------------------------------------

    def dry_run(self, progress: Progress) -> None:
        """Run the pipeline three times without a fault, unless that was done already and the
        histories can be read.

        Raises:
            DryRunError: a run without a fault proves nothing, or breaks the promise.
            KeyboardInterrupt: Ctrl-C was pressed.
        """
        self.saved.put_aside_unreadable(DRY)
        done = {result.plan.scenario for result in self.saved.results(DRY) if result.ended}
        names = [FIRST, *(f"dry-{number}" for number in range(2, DRY_RUNS + 1))]
        cells = tuple(self._without_fault(name) for name in names if name not in done)
        if isinstance(self.base, DeclaredSweepCell) and WATCHED not in done:
            cells += (self._without_fault(WATCHED, NoFault(watched=True)),)
        if cells:
            saved = self._run(cells, DRY, progress)
            if saved.info.interrupted:
                raise KeyboardInterrupt
            failed = [result for result in saved.results if result.verdict.kind is not Kind.KEPT]
            if failed and self.settings.jobs > 1 and isinstance(self.base, DeclaredCell):
                self._go_alone(failed[0], saved.directory, progress)
        for result in self.saved.dry_runs():
            if result.verdict.kind is not Kind.KEPT:
                raise DryRunError(result)

    def _go_alone(self, failed: CellResult, directory: Path, progress: Progress) -> None:
        """Repeat the dry runs of a declared pipeline one at a time; all further cells also run one
        at a time.

        Raises:
            DryRunError: one of them is not kept.
            KeyboardInterrupt: Ctrl-C was pressed.
        """
        self.alone = f"when runs without a fault ran side by side, one was {failed.verdict.kind}"
        progress.say(
            f"{self.alone} ({failed.verdict.reason}); the dry runs are repeated one at a time"
        )
        self.saved.put_aside_run(directory)
        self.settings = replace(self.settings, jobs=1)
        self.settings.save(self.directory)
        self.dry_run(progress)

    # --- the plan ---------------------------------------------------------------------------------

    @property
    def planner(self) -> Planner:
        """What chooses its points."""
        return Planner(
            self.directory, self.settings, self.base, self.kills_brokers, self.failpoints
        )

    def plan(self) -> Planned:
        """Return the plan that follows from the dry runs. They must be done.

        Raises:
            UsageError: an older version of lostack made the dry runs.
        """
        return self.planner.plan(self.saved.dry_runs(), self.saved.writes())

    def deeper(self, planned: Planned) -> Planned:
        """Return the plan with a second fault in each kind of recovery that the points so far have
        shown.
        """
        names = (name.partition(THEN) for name in self._times_run())
        firsts = first_faults(
            self.outcomes(planned).all, {first for first, _, second in names if second}
        )
        return self.planner.deeper(planned, firsts, self.saved.dry_runs()[0], self.saved.writes())

    def planned(self) -> Planned:
        """Return the plan of all points, those that were run and those that are left.

        Raises:
            UsageError: the dry runs are not done.
        """
        if len(self.saved.dry_runs()) < DRY_RUNS:
            raise UsageError(
                f"the dry runs of {self.directory} are not done: continue with lostack sweep "
                "--resume"
            )
        planned = self.plan()
        return self.deeper(planned) if self.settings.depth > 1 else planned

    # --- the points -------------------------------------------------------------------------------

    def run(self, planned: Planned, progress: Progress, until: float | None = None) -> None:
        """Run the chosen points that are left, then those that split classes; begin none after
        ``until`` (monotonic s).
        """
        self._lessons = replace(Lessons.of(self.outcomes(planned).all), dry=self._lessons.dry)

        def enough() -> bool:
            return is_over(until) or self.found_first or self.ran_dry

        def ended(result: CellResult) -> None:
            self._broken |= result.verdict.kind is Kind.BROKEN
            if self.until_dry is not None:
                self._lessons.note(self._outcome(result, planned))

        while not self.interrupted and not enough():
            left = self._left(planned)
            if not left:
                return
            ran = self._times_run()
            cells = tuple(
                at_point(self.base, point) if ran[point.id] else sharing(at_point(self.base, point))
                for point, _ in left
            )
            saved = self._run(cells, POINTS, Listening(progress, ended), enough)
            self.interrupted = saved.info.interrupted
            if self.found_first and not self.interrupted:
                self._make_sure(planned, saved, cells, progress, until)

    def _make_sure(
        self,
        planned: Planned,
        saved: SavedRun,
        cells: Sequence[Cell],
        progress: Progress,
        until: float | None,
    ) -> None:
        """Run a declared pipeline's points again that did not wait long enough, as others of the
        run showed.

        That is done only if a broken point is among them. If none is broken then, the sweep goes
        on. In lostack's own pipelines waiting for longer undoes nothing that is broken.
        """
        wanted = (
            self.again(cells) if isinstance(self.base, DeclaredCell) and not is_over(until) else ()
        )
        doubtful = [result for result in saved.results if result.plan.id in wanted]
        if not any(result.verdict.kind is Kind.BROKEN for result in doubtful):
            return
        progress.say(
            "run again, because another cell showed a longer silence than these had waited for:"
        )
        for result in doubtful:
            self._outcomes.pop(result.directory, None)
            self.saved.put_aside(result)
        again = tuple(cell for cell in cells if cell.id in {result.plan.id for result in doubtful})
        self.interrupted = self._run(again, POINTS, progress).info.interrupted
        mine = {cell.scenario.id for cell in cells}
        self._broken = any(
            one.signature.verdict == Kind.BROKEN
            for one in self.outcomes(planned).all
            if one.point.id in mine
        )

    @property
    def found_first(self) -> bool:
        """Whether a point of this run was broken, and that is enough."""
        return self.exit_first and self._broken

    @property
    def ran_dry(self) -> bool:
        """Whether ``until_dry`` points in a row have taught nothing."""
        return self.until_dry is not None and self._lessons.dry >= self.until_dry

    def run_cells(
        self, cells: Sequence[Cell], progress: Progress, folder: str = BESIDE
    ) -> tuple[CellResult, ...]:
        """Run cells outside the rounds: by default none of the plan's points, but cells that shrink
        or confirm findings.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed.
        """
        saved = self._run(tuple(cells), folder, progress)
        if saved.info.interrupted:
            raise KeyboardInterrupt
        return saved.results

    def outcomes(self, planned: Planned) -> Outcomes:
        """Return the outcomes of the points so far, judged again from their saved histories."""
        known = {point.id for inside in planned.classes.values() for point in inside}
        for result in self.saved.results(POINTS):
            if (
                result.ended
                and result.plan.scenario in known
                and result.directory not in self._outcomes
            ):
                self._outcomes[result.directory] = self._outcome(result, planned)
        ran = Counter(one.point.id for one in self._outcomes.values())
        last = {
            one.point.id: replace(one, once_more=ran[one.point.id] == 1 and self._runs_alone(one))
            for one in self._outcomes.values()
        }  # a point that was run again counts by its last outcome
        found = safe_files.files(self.directory, FOUND, lambda name: name.endswith(".toml"))
        saved = frozenset(PurePath(name).stem for name in found)
        return Outcomes(planned.classes, tuple(last.values()), saved)

    @staticmethod
    def _outcome(result: CellResult, planned: Planned) -> Outcome:
        """Return the outcome of a point that has ended."""
        point, each = next(
            (point, each)
            for each, inside in planned.classes.items()
            for point in inside
            if point.id == result.plan.scenario
        )
        why = next((why for one, why in planned.chosen if one.id == point.id), RunReason.SPLIT)
        return outcome_of(result, point, why, each, planned.usual)

    def _left(self, planned: Planned) -> list[tuple[Point, RunReason]]:
        outcomes = self.outcomes(planned)
        left = [(point, why) for point, why in planned.chosen if point.id not in outcomes.done]
        return left or [(point, RunReason.SPLIT) for point, _ in outcomes.splits()]

    def _runs_alone(self, one: Outcome) -> bool:
        """Whether a point that was run once runs once more, on a broker of its own: others could
        share its broker's death, and nothing proves its fault. Perhaps it came too late, or the
        broker did not come back.
        """
        return (
            not one.proved
            and shares_death(at_point(self.base, one.point))
            and RunInfo.load(one.directory.parents[1]).jobs != 1
        )

    def _times_run(self) -> Counter[str]:
        return Counter(
            result.plan.scenario for result in self.saved.results(POINTS) if result.ended
        )

    # --- runs -------------------------------------------------------------------------------------

    def _without_fault(self, name: str, fault: NoFault = NoFault()) -> Cell:  # noqa: B008 - nobody can change it
        cell = replace(self.base, scenario=replace(self.base.scenario, id=name, fault=fault))
        return replace(cell, brief=name != FIRST) if isinstance(cell, DeclaredSweepCell) else cell

    def _run(
        self,
        cells: tuple[Cell, ...],
        folder: str,
        progress: Progress,
        enough: Callable[[], bool] = lambda: False,
    ) -> SavedRun:
        plan = RunPlan(
            systems=(self.system,),
            cells=cells,
            not_applicable=(),
            reports=self.directory / folder,
            jobs=self.settings.jobs,
            command=self.settings.command,
            seeds=(self.base.seed,),
            records=self.base.records,
            again=lambda: self.again(cells),
            enough=enough,
            keep=self.keep,
        )
        saved = run(plan, progress)
        self.saved.note(saved)
        return saved


def is_over(until: float | None) -> bool:
    """Say whether a time (monotonic s) has come; ``None`` never comes."""
    return until is not None and time.monotonic() >= until


__all__ = ["DeclaredSweepCell", "DryRunError", "Sweep", "SweepCell"]
