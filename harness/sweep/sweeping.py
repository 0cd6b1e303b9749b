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

import dataclasses
import itertools
import statistics
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING

from harness import registry
from harness.faults import NoFault
from harness.judge.verdict import Kind
from harness.matrix.progress import Listening
from harness.matrix.runner import RunPlan, run
from harness.model import events as kinds
from harness.model import safe_files
from harness.model.events import ConnPhase
from harness.model.failures import UsageError
from harness.model.history import HISTORY, read_history
from harness.model.keep import Keep
from harness.pipelines.cells import DeclaredCell
from harness.saved import ASIDE, RUN_FILE, load_run
from harness.stages.settings import ours
from harness.sweep.acts import LONG
from harness.sweep.cells import (
    DeclaredSweepCell,
    SweepCell,
    brokers_of,
    shares_death,
    sharing,
    with_fault,
)
from harness.sweep.classes import Earlier, ProtocolState, Why, chosen, class_of, grouped
from harness.sweep.lessons import Lessons
from harness.sweep.outcomes import Outcomes, outcome_of
from harness.sweep.phases import has_load, name_of, phases
from harness.sweep.points import Capabilities, at_writes, in_programs, points, tried
from harness.sweep.recovery import first_faults, in_turn, seconds
from harness.sweep.settings import BESIDE, DRY, FOUND, POINTS
from harness.sweep.signature import usual_requests
from harness.sweep.steps import intersected, shared_roles, trace

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from pathlib import Path

    from harness.interfaces import Launcher
    from harness.matrix.listener import Progress
    from harness.model.cell import Cell
    from harness.model.history import History
    from harness.model.writes import Point as Write
    from harness.saved import CellResult, SavedRun
    from harness.sweep.classes import Chosen, Class
    from harness.sweep.outcomes import Outcome
    from harness.sweep.points import Point
    from harness.sweep.settings import SweepSettings
    from harness.sweep.steps import Steps

RESULT_FILE = "result.json"
DRY_RUNS = 3
FIRST = "dry-1"
"""The dry run of a declared pipeline that also waits for late results, to learn how
long to wait.
"""
WATCHED = "dry-watched"
"""A further dry run of a declared pipeline, in which a tracer writes down durable writes; that
slows the pipeline down.
"""
PATIENTLY = "~patiently"
"""The suffix of a point's name if its cell runs with the drain's full time."""
UNLOADED = "no other record moves before it, or behind it"


class DryRunError(Exception):
    """A run without a fault is not kept, so a sweep would prove nothing. ``result``: that run's
    cell.
    """

    def __init__(self, result: CellResult) -> None:
        super().__init__(result.verdict.reason)
        self.result = result


@dataclass(frozen=True)
class Planned:
    """The plan that follows from the dry runs. ``seconds``: how long one of their cells took."""

    steps: Steps
    classes: dict[Class, tuple[Point, ...]]
    chosen: tuple[tuple[Point, Why], ...]
    inapplicable: tuple[tuple[Point, str], ...]
    """Points that are not possible with this system or on this machine, and why."""
    usual: frozenset[str]
    seconds: float

    @property
    def points(self) -> int:
        """How many points there are."""
        return sum(map(len, self.classes.values()))

    def nothing(self, asked: SweepSettings) -> str | None:
        """Say why there is no point at all, or return ``None``."""
        if self.points:
            return None
        if not self.steps.frames:
            system = f"the system {asked.system}" if asked.system else asked.what
            return (
                f"{system} sends nothing through the wire, so there is no frame at which a fault "
                "could be placed"
            )
        if not self.steps.found:
            return (
                f"none of {self.steps.frames} frames has the same name in all {DRY_RUNS} runs "
                "without a fault"
            )
        if self.inapplicable:
            return f"no point is possible: {self.inapplicable[0][1]}"
        return f"the acts of --act {' '.join(asked.acts)} are possible at no step"


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
    _judged: dict[Path, CellResult] = field(default_factory=dict, init=False)
    """Cells that have ended, by their folders."""
    _outcomes: dict[Path, Outcome] = field(default_factory=dict, init=False)

    # --- the dry runs -----------------------------------------------------------------------------

    def dry_run(self, progress: Progress) -> None:
        """Run the pipeline three times without a fault, unless that was done already.

        Raises:
            DryRunError: a run without a fault proves nothing, or breaks the promise.
            KeyboardInterrupt: Ctrl-C was pressed.
        """
        if len(self.dry_runs()) < DRY_RUNS:
            done = {result.plan.scenario for result in self.results(DRY) if result.ended}
            names = [FIRST, *(f"dry-{number}" for number in range(2, DRY_RUNS + 1))]
            cells = tuple(self._without_fault(name) for name in names if name not in done)
            if isinstance(self.base, DeclaredSweepCell) and WATCHED not in done:
                cells += (self._without_fault(WATCHED, NoFault(watched=True)),)
            saved = run(self._run_plan(cells, DRY), progress)
            if saved.info.interrupted:
                raise KeyboardInterrupt
            failed = [result for result in saved.results if result.verdict.kind is not Kind.KEPT]
            if failed and self.settings.jobs > 1 and isinstance(self.base, DeclaredCell):
                self._go_alone(failed[0], saved.directory, progress)
        for result in self.dry_runs():
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
        (self.directory / ASIDE).mkdir(exist_ok=True)
        directory.rename(self.directory / ASIDE / directory.name)
        self.settings = dataclasses.replace(self.settings, jobs=1)
        self.settings.save(self.directory)
        self.dry_run(progress)

    def plan(self) -> Planned:
        """Return the plan that follows from the dry runs. They must be done.

        Raises:
            UsageError: an older version of lostack made the dry runs.
        """
        dry = self.dry_runs()
        histories = [read_history(result.directory / HISTORY, result.plan.id) for result in dry]
        if any(
            line.phase == ConnPhase.OPEN and line.protocol is None
            for each in histories
            for line in each.of(kinds.Conn)
        ):
            raise UsageError(
                f"the dry runs of {self.directory} are of an older lostack and do not say which "
                "protocol each connection speaks, so its steps would be named otherwise: begin "
                "a new sweep"
            )
        keys = [result.plan.key for result in dry]
        steps = intersected(
            [trace(history, key) for history, key in zip(histories, keys, strict=True)]
        )
        phase = phases(histories[0])
        in_phase = {
            place: phase[name_of(frame.line)] for place, (_, frame) in enumerate(steps.found)
        }
        acts = self.settings.acts
        can = self._can(histories[0], keys[0])
        found = itertools.chain(
            points(steps, self.base.load(), can), in_programs(steps, can), at_writes(steps, can)
        )
        able, unable = self._applicable(
            point
            for point in found
            if (point.act.startswith(acts) if acts else point.act not in LONG)
        )
        loaded = self._loaded(steps, histories[0])
        unable += tuple((point, UNLOADED) for point in able if point.place not in loaded)
        able = [point for point in able if point.place in loaded]
        classes = grouped(able, in_phase)
        mine, took_s = (
            self._mine(
                chosen(
                    classes,
                    self.settings.seed,
                    None if self.settings.shard[1] > 1 else self._earlier(),
                )
            ),
            statistics.median(result.seconds for result in dry),
        )
        return Planned(steps, classes, mine, unable, usual_requests(histories), took_s)

    def _earlier(self) -> Earlier:
        """Return what earlier sweeps of the same pipeline, in the same folder, have run."""
        ran: set[tuple[str, str]] = set()
        beside = self.directory.parent
        for name in safe_files.folders(beside):
            with suppress(
                OSError, ValueError, KeyError, TypeError
            ):  # what cannot be read has shown nothing
                told = safe_files.read_json(beside, f"{name}/{RESULT_FILE}")
                if name < self.directory.name and told["what"] == self.settings.what:
                    ran |= {
                        (str(one["class"]), str(one["signature"]["verdict"]))
                        for one in told["outcomes"]
                    }
        states = {ProtocolState.name_in(each) for each, _ in ran}
        broken = {
            ProtocolState.name_in(each)
            for each, verdict in ran
            if verdict in (Kind.BROKEN, Kind.STUCK)
        }
        return Earlier(frozenset(each for each, _ in ran), frozenset(states), frozenset(broken))

    def _mine(self, found: tuple[Chosen, ...]) -> tuple[Chosen, ...]:
        """Return the points of this shard."""
        part, parts = self.settings.shard
        return tuple(one for number, one in enumerate(found) if number % parts == part - 1)

    def _loaded(self, steps: Steps, history: History) -> set[int]:
        """Return the places of steps with load before and after them; before the first record there
        is none.
        """
        first = self.base.load().records[0].id
        return {
            place
            for place, (step, frame) in enumerate(steps.found)
            if has_load(history, frame.line, step.at, first=first)
        }

    @property
    def hands_over(self) -> bool:
        """Whether one of its brokers can hand over what it leads: there are several of lostack's
        own.
        """
        return self.kills_brokers and brokers_of(self.base) > 1

    def _can(self, history: History, key: str) -> Capabilities:
        """Return what can be done to the pipeline that a run without a fault shows."""
        members = shared_roles(history, key)
        declared = isinstance(self.base, DeclaredCell)
        resends = declared or ours(self.base.settings).producer.retries
        return Capabilities(
            self.kills_brokers,
            declared,
            members=members,
            failpoints=self.failpoints,
            resends=resends,
            hand_over=self.hands_over,
            reconnects=not declared,
            writes=self._writes(),
        )

    def _applicable(
        self, found: Iterable[Point]
    ) -> tuple[list[Point], tuple[tuple[Point, str], ...]]:
        able, unable = [], []
        for point in found:
            because = point.illegal or registry.inapplicable(self.cell(point))
            if because is None:
                able.append(point)
            else:
                unable.append((point, because))
        return able, tuple(unable)

    def planned(self) -> Planned:
        """Return the plan of all points, those that were run and those that are left.

        Raises:
            UsageError: the dry runs are not done.
        """
        if len(self.dry_runs()) < DRY_RUNS:
            raise UsageError(
                f"the dry runs of {self.directory} are not done: continue with lostack sweep "
                "--resume"
            )
        planned = self.plan()
        return self.deeper(planned) if self.settings.depth > 1 else planned

    def deeper(self, planned: Planned) -> Planned:
        """Return the plan with a second fault in each kind of recovery that the points so far have
        shown.
        """
        known = frozenset(step for step, _ in planned.steps.found)
        first = self.dry_runs()[0]
        can = self._can(read_history(first.directory / HISTORY, first.plan.id), first.plan.key)
        found: dict[Class, list[Point]] = {}
        firsts = first_faults(self.outcomes(planned).all)
        for point, phase in in_turn(
            [list(seconds(first, known, planned.usual, self.base.load(), can)) for first in firsts]
        ):
            found.setdefault(class_of(point, phase), []).append(point)
        classes = {each: tuple(inside) for each, inside in found.items()}
        both = planned.chosen + self._mine(chosen(classes, self.settings.seed))
        return dataclasses.replace(planned, classes=planned.classes | classes, chosen=both)

    # --- the points -------------------------------------------------------------------------------

    def run(self, planned: Planned, progress: Progress, until: float | None = None) -> None:
        """Run the chosen points that are left, then those that split classes; begin none after
        ``until`` (monotonic s).
        """
        self._lessons = Lessons.of(self.outcomes(planned).all)

        def enough() -> bool:
            return _is_over(until) or self.found_first or self.ran_dry

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
                self.cell(point) if ran[point.id] else sharing(self.cell(point))
                for point, _ in left
            )
            saved = run(self._run_plan(cells, POINTS, enough), Listening(progress, ended))
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
            self.again(cells) if isinstance(self.base, DeclaredCell) and not _is_over(until) else ()
        )
        doubtful = [result for result in saved.results if result.plan.id in wanted]
        if not any(result.verdict.kind is Kind.BROKEN for result in doubtful):
            return
        progress.say(
            "run again, because another cell showed a longer silence than these had waited for:"
        )
        (saved.directory / ASIDE).mkdir(exist_ok=True)
        for result in doubtful:
            self._judged.pop(result.directory, None)
            self._outcomes.pop(result.directory, None)
            result.directory.rename(saved.directory / ASIDE / result.directory.name)
        again = tuple(cell for cell in cells if cell.id in {result.plan.id for result in doubtful})
        self.interrupted = run(self._run_plan(again, POINTS), progress).info.interrupted
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
        """Whether so many points in turn have taught nothing that it is enough."""
        return self.until_dry is not None and self._lessons.dry >= self.until_dry

    def run_beside(self, cells: Sequence[Cell], progress: Progress) -> tuple[CellResult, ...]:
        """Run cells that are not points of the plan, such as those that shrink a finding.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed.
        """
        saved = run(self._run_plan(tuple(cells), BESIDE), progress)
        if saved.info.interrupted:
            raise KeyboardInterrupt
        return saved.results

    def outcomes(self, planned: Planned) -> Outcomes:
        """Return the outcomes of the points so far, judged again from their saved histories."""
        known = {point.id for inside in planned.classes.values() for point in inside}
        for result in self.results(POINTS):
            if (
                result.ended
                and result.plan.scenario in known
                and result.directory not in self._outcomes
            ):
                self._outcomes[result.directory] = self._outcome(result, planned)
        last = {
            one.point.id: one for one in self._outcomes.values()
        }  # what was run again counts as it came out then
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
        why = next((why for one, why in planned.chosen if one.id == point.id), Why.SPLIT)
        return outcome_of(result, point, why, each, planned.usual)

    def confirm(self, planned: Planned, progress: Progress, until: float | None = None) -> None:
        """Run one point of each stuck finding again, with the drain's full time. If it is kept
        then, run all its points so.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed.
        """
        if not isinstance(
            self.base, SweepCell
        ):  # declared ones learn how long to wait, and run again what did not
            return
        stood = (
            one.plan.scenario
            for one in self.results(BESIDE)
            if one.ended and one.verdict.kind is not Kind.KEPT
        )
        sure = {name.removesuffix(PATIENTLY) for name in stood if name.endswith(PATIENTLY)}
        for finding in self.outcomes(planned).findings():
            if (
                finding.signature.verdict != Kind.STUCK
                or finding.first.point.id in sure
                or _is_over(until)
            ):
                continue
            progress.say(f"stuck; run again with the drain's full time: {finding.first.point.id}")
            [result] = self.run_beside(
                [self.cell(finding.first.point, PATIENTLY, patient=True)], progress
            )
            if result.verdict.kind is Kind.KEPT:
                progress.say(
                    "  not stuck, only slower; all points of the finding run again with the full "
                    "time:"
                )
                cells = tuple(self.cell(one.point, patient=True) for one in finding.points)
                if run(self._run_plan(cells, POINTS), progress).info.interrupted:
                    raise KeyboardInterrupt

    def cell(self, point: Point, suffix: str = "", *, patient: bool = False) -> Cell:
        """Return the cell of a point, its name followed by ``suffix``. ``patient``: its drain waits
        until the deadline.
        """
        position = next(
            record.position for record in self.base.load().records if record.id == point.step.at
        )
        cell = with_fault(self.base, point.id + suffix, point.fault, point.because, position)
        return (
            dataclasses.replace(cell, patient=True)
            if patient and isinstance(cell, SweepCell)
            else cell
        )

    def _left(self, planned: Planned) -> list[tuple[Point, Why]]:
        outcomes = self.outcomes(planned)
        done = {one.point.id for one in outcomes.all if not self._runs_alone(one)}
        left = [(point, why) for point, why in planned.chosen if point.id not in done]
        return left or [(point, Why.SPLIT) for point, _ in outcomes.splits()]

    def _runs_alone(self, one: Outcome) -> bool:
        """Whether a point runs once more, on a broker of its own: it shared a broker's death, and
        nothing proves its fault. Perhaps it came too late, or the broker did not come back.
        """
        shared = self.settings.jobs > 1 and not one.proved and shares_death(self.cell(one.point))
        return shared and self._times_run()[one.point.id] == 1

    def _times_run(self) -> Counter[str]:
        return Counter(result.plan.scenario for result in self.results(POINTS) if result.ended)

    # --- runs -------------------------------------------------------------------------------------

    def _without_fault(self, name: str, fault: NoFault = NoFault()) -> Cell:  # noqa: B008 - nobody can change it
        cell = dataclasses.replace(
            self.base, scenario=dataclasses.replace(self.base.scenario, id=name, fault=fault)
        )
        return (
            dataclasses.replace(cell, brief=name != FIRST)
            if isinstance(cell, DeclaredSweepCell)
            else cell
        )

    def _run_plan(
        self, cells: tuple[Cell, ...], folder: str, enough: Callable[[], bool] = lambda: False
    ) -> RunPlan:
        return RunPlan(
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

    def results(self, folder: str) -> list[CellResult]:
        """Return the judged cells of all runs in a folder of the sweep, in their order; none is
        judged twice.
        """
        names = [f"{folder}/{name}" for name in safe_files.folders(self.directory, folder)]
        known = {str(where): result for where, result in self._judged.items()}
        there = [name for name in names if safe_files.exists(self.directory, f"{name}/{RUN_FILE}")]
        runs = [load_run(self.directory / name, judged=known) for name in there]
        results = [result for saved in runs for result in saved.results]
        self._judged |= {result.directory: result for result in results if result.ended}
        return results

    def dry_runs(self) -> list[CellResult]:
        """Return the runs without a fault that have ended, and that steps are found in."""
        found = [
            result
            for result in self.results(DRY)
            if result.ended and result.plan.scenario != WATCHED
        ]
        return found[:DRY_RUNS]

    def _writes(self) -> tuple[tuple[str, Write], ...]:
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


def _is_over(until: float | None) -> bool:
    return until is not None and time.monotonic() >= until


__all__ = ["DeclaredSweepCell", "DryRunError", "Planned", "Sweep", "SweepCell"]
