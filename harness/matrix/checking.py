"""Checks a declared pipeline: a dry run, the plan made from it, and the runs with faults."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from harness.faults import ChangesGroup, InBurst, NoFault
from harness.judge.verdict import Kind
from harness.matrix.runner import RunPlan, run
from harness.matrix.seen import awake_s, enough
from harness.matrix.selection import not_run
from harness.model.history import HISTORY, HistoryError, read_history
from harness.model.keep import Keep
from harness.model.scenario import NotApplicable
from harness.pipelines.cells import aim, cells_of
from harness.pipelines.failure_points import (
    NO_FAULT,
    burst_rehearsal,
    failure_points,
    joining_rehearsal,
    left_over,
    named_by,
)
from harness.pipelines.pairs import Paired, Pairs
from harness.pipelines.refusing import DeclarationError, nearest
from harness.pipelines.silences import is_long, left_out, price
from harness.proofs.moved import taken_in
from harness.systems.declared.learnt.silence import rests_s

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from harness.matrix.listener import Progress
    from harness.model.scenario import Scenario
    from harness.pipelines.cells import DeclaredCell
    from harness.pipelines.declaration import Pipeline
    from harness.pipelines.traffic import StageTraffic
    from harness.saved import CellResult, SavedRun
    from harness.systems.declared.system import DeclaredSystem

DRY_RUNS = "dry-runs"
NOT_TRIED = "not tried: "
"""What the proofs of a fault begin with that met nothing."""
REHEARSAL = "rehearsal"
"""The name of the runs without a fault beside the dry run; a number follows it."""


def not_tried(result: CellResult) -> bool:
    """Whether a run is void because the pipeline never came to what was to be tried."""
    verdict = result.verdict
    return verdict.kind is Kind.VOID and verdict.reason.startswith(NOT_TRIED)


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A dry run, and whether cells can run side by side.

    ``jobs``: how many cells may run at once; ``because``: why only one may, or empty; ``runs``:
    the runs without a fault, each with its cell, that one among them.
    """

    dry: CellResult
    jobs: int
    because: str = ""
    runs: tuple[tuple[CellResult, DeclaredCell], ...] = ()

    def price(self, pipeline: Pipeline, cells: Sequence[DeclaredCell]) -> str:
        """Say how long these cells of a pipeline take together."""
        return price(
            [cell.scenario for cell in cells],
            awake_s(self.dry, pipeline.output.quiet_s),
            self.jobs,
            partial(rests_s, pipeline),
        )


@dataclass(frozen=True, slots=True)
class Check:
    """One check of one pipeline. ``jobs``: how many of its cells run at once, each on a broker of
    its own.
    """

    pipeline: Pipeline
    system: DeclaredSystem
    reports: Path
    command: str
    seed: int = 1
    jobs: int = 1
    keep: Keep = Keep.BROKEN
    long: bool = False
    """Whether points that wait long for a client's time-out are run without being named."""
    pairs: Pairs = Pairs.NONE
    """Which pairs of faults are run without being named."""

    def dry_run(self, progress: Progress, *, brief: bool = False) -> CellResult:
        """Run the pipeline without a fault. ``brief``: do not wait for late records, because
        another such run will.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed.
            Exception: whatever :func:`harness.matrix.runner.run` raises.
        """
        return self._dry_runs(1, progress, brief=brief)[0][0]

    def rehearsed(self, progress: Progress, *, brief: bool = False) -> Rehearsal:
        """Run the pipeline without a fault, ``jobs`` times side by side; if one fails, run it
        alone, and all cells one at a time.

        ``brief``: do not wait for late records, because another run without a fault will.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed.
            Exception: whatever :func:`harness.matrix.runner.run` raises.
        """
        because = self.system.why_alone(self.pipeline) or ""
        if self.jobs > 1 and not because:
            runs = self._dry_runs(self.jobs, progress, brief=brief)
            failed = [result for result, _ in runs if result.verdict.kind is not Kind.KEPT]
            if not failed:
                return Rehearsal(runs[0][0], self.jobs, runs=runs)
            because = (
                f"one of {self.jobs} runs without a fault side by side was {failed[0].verdict.kind}"
            )
            progress.say(f"{because} ({failed[0].verdict.reason}); it runs again alone")
        runs = self._dry_runs(1, progress, brief=brief)
        return Rehearsal(runs[0][0], 1, because, runs)

    def _dry_runs(
        self, count: int, progress: Progress, *, brief: bool
    ) -> tuple[tuple[CellResult, DeclaredCell], ...]:
        """Run the pipeline without a fault ``count`` times side by side, and return each run with
        its cell; the tracer watches the first run's durable writes.
        """
        [without] = [
            scenario for scenario in failure_points(self.pipeline) if scenario.id == NO_FAULT
        ]
        first = replace(without, fault=NoFault(watched=True))
        others = [replace(without, id=f"{REHEARSAL}-{number}") for number in range(2, count + 1)]
        cells = cells_of(self.pipeline, (first, *others), seed=self.seed)
        cells = tuple(replace(cell, brief=brief or cell.scenario is not first) for cell in cells)
        saved = self._run(cells, (), self.reports / DRY_RUNS, progress, jobs=count)
        if saved.info.interrupted or len(saved.results) < count:
            raise KeyboardInterrupt
        by_name = {result.plan.scenario: result for result in saved.results}
        return tuple((by_name[cell.scenario.id], cell) for cell in cells)

    def rehearsals(
        self, seen: Mapping[str, StageTraffic], only: Sequence[str], progress: Progress
    ) -> tuple[dict[str, StageTraffic], tuple[CellResult, ...]]:
        """Return what was seen, and besides what runs of their own show, if points are asked for
        that need it: of which stages requests overlap, where an answer to each sending stage is a
        little late; and which partitions a member takes when it joins, where the others keep
        theirs. Return the runs with a late answer, too.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed.
        """
        faults = [cell.scenario.fault for cell in self.plan(seen, only)[0]]
        bursts = dict.fromkeys(each.at.role for each in faults if isinstance(each, InBurst))
        joins = dict.fromkeys(
            each.at.role
            for each in faults
            if isinstance(each, ChangesGroup) and each.joins and seen[each.at.role].incremental
        )
        if bursts:
            progress.say("dry run: an answer is late (void: no requests overlap)")
        for role in joins:
            progress.say(f"dry run: another {role} joins, to see which partitions it takes")
        asked = [
            *(burst_rehearsal(self.pipeline, role) for role in bursts),
            *(joining_rehearsal(self.pipeline, role) for role in joins),
        ]
        if not asked:
            return dict(seen), ()
        made = cells_of(
            self.pipeline, asked, seed=self.seed, records=enough(self.pipeline, seen)[0]
        )
        shares = {role: one.share for role, one in seen.items()}
        saved = self._run(
            [aim(cell, shares) for cell in made],
            (),
            self.reports / DRY_RUNS,
            progress,
            jobs=self.jobs,
        )
        if saved.info.interrupted:
            raise KeyboardInterrupt
        found = {result.plan.scenario: result for result in saved.results}
        late = tuple(found[each.id] for each in asked[: len(bursts)])
        reasons = {
            result.plan.scenario: "in a run with a late answer, "
            + result.verdict.reason.removeprefix(NOT_TRIED)
            for result in late
            if not_tried(result)
        }
        learnt = {
            role: replace(one, alone=reasons.get(f"{role}-sends-on", ""))
            for role, one in seen.items()
        }
        for role, point in zip(joins, asked[len(bursts) :], strict=True):
            share = learnt[role].share.with_taken(_taken_in(found[point.id]))
            learnt[role] = replace(learnt[role], share=share)
        return learnt, late

    def plan(
        self, seen: Mapping[str, StageTraffic], only: Sequence[str] = ()
    ) -> tuple[tuple[DeclaredCell, ...], tuple[DeclaredCell, ...]]:
        """Return the cells to run and those that do not apply.

        Raises:
            DeclarationError: a name is unknown, or records cannot be told apart.
        """
        points = self._points(seen, only)
        names = [point.id for point in points]
        for name in only:
            if not any(named_by(point, (name,)) for point in points):
                raise DeclarationError(f"there is no failure point {name}; {nearest(name, names)}")
        asked = [
            point
            for point in points
            if named_by(point, only)
            or (
                not only
                and not left_over(self.pipeline, point)
                and (self.long or not is_long(point))
            )
        ]
        cells = cells_of(
            self.pipeline, asked, seed=self.seed, records=enough(self.pipeline, seen)[0]
        )
        shares = {role: one.share for role, one in seen.items()}
        cells = tuple(aim(cell, shares) for cell in cells)
        rest = tuple(cell for cell in cells if isinstance(cell.expectation, NotApplicable))
        applying = tuple(cell for cell in cells if cell not in rest)
        for cell in applying:  # the rest may have no record that could be a target
            cell.load()
        return applying, rest

    def left_out(self, seen: Mapping[str, StageTraffic], only: Sequence[str] = ()) -> Iterator[str]:
        """Yield lines about the points that apply and are not run, because they take long."""
        if not self.long and not only:
            claims = self.pipeline.claims
            yield from left_out(
                [
                    point
                    for point in self._points(seen, ())
                    if is_long(point) and not isinstance(point.expect[claims], NotApplicable)
                ]
            )

    def _points(
        self, seen: Mapping[str, StageTraffic], only: Sequence[str]
    ) -> tuple[Scenario, ...]:
        """Return all failure points. ``only``: names that are asked for."""
        return failure_points(
            self.pipeline,
            seen,
            sending=[role for role in self._reading() if self._may_send(role, seen, only)],
            attached=self.system.attached,
            paired=self._paired(seen, only),
        )

    def _paired(self, seen: Mapping[str, StageTraffic], only: Sequence[str]) -> Paired:
        """Return the pairs of faults that are asked for: who names points may name any."""
        units = {role: one.unit for role, one in seen.items()} if seen else None
        return Paired(Pairs.ALL if only else self.pairs, units)

    def _reading(self) -> list[str]:
        return [str(stage.known) for stage in self.pipeline.stages if stage.reads]

    def _may_send(self, role: str, seen: Mapping[str, StageTraffic], only: Sequence[str]) -> bool:
        """Whether a reading stage has the points of a sending one: it sent records in the dry run,
        or that is not known yet, or one of its points is asked for by name.
        """
        if role in seen and seen[role].share.sent:
            return True
        return not seen or any(name.startswith(f"{role}-") for name in only)

    def faults(
        self,
        cells: Sequence[DeclaredCell],
        rest: Sequence[DeclaredCell],
        progress: Progress,
        untried: Sequence[str] = (),
    ) -> SavedRun:
        """Run the cells with faults. ``untried``: sentences about the stages that none of these
        cells kills.
        """
        return self._run(cells, rest, self.reports, progress, untried, jobs=self.jobs)

    def _run(
        self,
        cells: Sequence[DeclaredCell],
        rest: Sequence[DeclaredCell],
        reports: Path,
        progress: Progress,
        untried: Sequence[str] = (),
        *,
        jobs: int,
    ) -> SavedRun:
        plan = RunPlan(
            systems=(self.system,),
            cells=tuple(cells),
            not_applicable=tuple(not_run(cell) for cell in rest),
            reports=reports,
            jobs=jobs,
            command=self.command,
            seeds=(self.seed,),
            records=max((cell.records for cell in cells), default=self.pipeline.records),
            untried=tuple(untried),
            again=lambda: self.system.silences.too_short(cells),
            keep=self.keep,
        )
        return run(plan, progress)


def _taken_in(result: CellResult) -> frozenset[str]:
    """Return the partitions that a member took which joined; none, if the history cannot be
    read.
    """
    try:
        return taken_in(read_history(result.directory / HISTORY))
    except HistoryError:
        return frozenset()


def at_once(jobs: int, because: str) -> str:
    """Say how many cells run at once, and why if only one does."""
    if jobs > 1:
        return f"{jobs} cells at once, each on a broker of its own"
    return f"one cell at a time{because and f': {because}'}"
