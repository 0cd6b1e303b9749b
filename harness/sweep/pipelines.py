"""The pipelines that can be swept: lostack's own, by their names, and declared ones."""

from __future__ import annotations

import fnmatch
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness import registry
from harness.controls import InProgram, trigger_of
from harness.faults import NoFault
from harness.matrix.runner import RunPlan
from harness.matrix.selection import SelectionError, check_numbers
from harness.model.cell import LEAST_RECORDS
from harness.model.scenario import Predicted, Scenario
from harness.pipelines import read_pipeline
from harness.pipelines.cells import DeclaredCell, cells_of
from harness.pipelines.failure_points import NO_FAULT, failure_points
from harness.pipelines.inputs import InputKind
from harness.stages.producer import BETWEEN_PHASES
from harness.stages.settings import Settings
from harness.sweep.cells import GROUP, DeclaredSweepCell, SweepCell
from harness.sweep.found import FoundScenario
from harness.sweep.settings import SweepSettings
from harness.sweep.sweeping import Sweep
from harness.systems.declared.fetchable import check_declared
from harness.systems.declared.system import DeclaredSystem

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.interfaces import Launcher
    from harness.model.cell import Cell
    from harness.model.pipeline import Pipeline
    from harness.model.semantics import Semantic
    from harness.pipelines.declaration import Pipeline as Declared

WITHOUT = (
    "Without a fault nothing is lost and nothing is duplicated. The sweep finds its steps in "
    "this run."
)


def swept(only: Sequence[str], asked: SweepSettings) -> list[SweepCell]:
    """Return a cell without a fault for each pipeline and semantic that ``only`` matches.

    A pattern is ``plain/exactly-once``, ``plain`` or a glob.

    Raises:
        SelectionError: a pattern matches no pipeline.
        UnknownNameError: a client or a system is not known.
    """
    check_numbers(asked.records, (asked.seed,))
    systems = registry.systems("process", asked.system or None)
    found = {
        f"{pipeline}/{semantic}": (name, pipeline, semantic)
        for name in systems
        for pipeline, semantic in _offered(name)
    }
    for pattern in only:
        if not any(_means(pattern, each) for each in found):
            names = dict.fromkeys((*(name.partition("/")[0] for name in found), *found))
            theirs = [each for each in registry.real() if _is_of(each, pattern)]
            raise SelectionError(
                f"{pattern} is a pipeline of {' and '.join(theirs)}: add --system {theirs[0]}"
                if theirs
                else f"no pipeline matches {pattern!r}; {registry.suggestion(pattern, names)}"
            )
    meant = [each for name, each in found.items() if any(_means(pattern, name) for pattern in only)]
    clients = {
        name: registry.clients_of(name, (asked.client,) if asked.client else ()) for name in systems
    }
    return [
        _cell(asked, name, client, pipeline, semantic)
        for name, pipeline, semantic in meant
        for client in clients[name]
    ]


def _is_of(system: str, pattern: str) -> bool:
    offered = _offered(system)
    return any(_means(pattern, f"{pipeline}/{semantic}") for pipeline, semantic in offered)


def _cell(
    asked: SweepSettings, system: str, client: str, pipeline: Pipeline, semantic: Semantic
) -> SweepCell:
    expect = {semantic: _without(asked, pipeline, semantic)}
    scenario = Scenario(NO_FAULT, NoFault(), WITHOUT, expect, pipeline, group=GROUP)
    return SweepCell(scenario, semantic, system, client, "process", asked.seed, asked.records)


def _without(asked: SweepSettings, pipeline: Pipeline, semantic: Semantic) -> Predicted:
    """Return the prediction of a run without a fault, with the run's settings."""
    if not asked.like:
        return Predicted()
    there = {
        one.id: one
        for one in registry.scenarios()
        if one.pipeline == pipeline and semantic in one.expect
    }
    like = there[registry.known(asked.like, there, f"scenario of {pipeline}/{semantic}")]
    return Predicted(settings=like.settings(semantic, asked.client, asked.system))


def sweep_of(asked: SweepSettings, directory: Path, *, keep: bool = True) -> Sweep:
    """Make the sweep that ``asked`` describes; write nothing. ``keep``: a declared pipeline's
    broker stays up between runs.

    Raises:
        DeclarationError: the declaration is wrong.
        EnvironmentFailure: the extra that reads the output is not installed.
        SelectionError: no pipeline matches.
        UnknownNameError: a client or a system is not known.
    """
    if not asked.declared:
        [base] = swept([asked.what], asked)
        return Sweep(
            directory,
            asked,
            base,
            registry.system(base.system),
            failpoints=failpoints_of(base),
            again=base.silence.too_short,
        )
    pipeline = read_pipeline(Path(asked.what))
    check_declared(pipeline)
    return declared_sweep(asked, directory, pipeline, DeclaredSystem(keep=keep))


def declared_sweep(
    asked: SweepSettings, directory: Path, pipeline: Declared, system: DeclaredSystem
) -> Sweep:
    """Return the sweep of a declared pipeline."""

    def again(cells: Sequence[Cell]) -> set[str]:
        return system.silences.too_short(cell for cell in cells if isinstance(cell, DeclaredCell))

    alone = system.why_alone(pipeline) or ""
    asked = replace(asked, jobs=1) if alone else asked
    return Sweep(
        directory,
        asked,
        declared_base(pipeline, asked.seed),
        system,
        kills_brokers=not system.attached,
        again=again,
        alone=alone,
        failpoints=tuple(
            (str(each.known), name) for each in pipeline.stages for name in each.failpoints
        ),
    )


def declared_base(pipeline: Declared, seed: int) -> DeclaredSweepCell:
    """Return the cell of a declared pipeline without a fault.

    Raises:
        DeclarationError: the pipeline's records cannot be told apart.
    """
    [without] = [one for one in failure_points(pipeline) if one.id == NO_FAULT]
    [cell] = cells_of(pipeline, [without], seed=seed)
    base = DeclaredSweepCell(
        scenario=cell.scenario,
        semantic=cell.semantic,
        system=cell.system,
        client=cell.client,
        runtime=cell.runtime,
        seed=seed,
        records=cell.records,
        declared=pipeline,
    )
    base.load()
    return base


def failpoints_of(base: Cell) -> tuple[tuple[str, str], ...]:
    """Return role and name of each failpoint that a scenario uses in a pipeline's programs, under
    any semantic.
    """
    found: dict[tuple[str, str], None] = {}
    for one in registry.scenarios():
        at = trigger_of(one.fault)
        if one.pipeline != base.scenario.pipeline or not isinstance(at, InProgram):
            continue
        if at.name != BETWEEN_PHASES or _has_settings_of(one, base):
            found[str(at.role), at.name] = None
    return tuple(found)


def _has_settings_of(scenario: Scenario, base: Cell) -> bool:
    of = base.semantic, base.client, base.system
    there = base.semantic in scenario.expect and isinstance(scenario.expectation(*of), Predicted)
    return there and scenario.settings(*of) == base.settings


def loaded(base: Cell, records: int, partitions: int = 0, consumers: int = 0) -> Cell:
    """Return a cell with these numbers of records, partitions and, for lostack's own pipelines,
    consumers (0: unchanged).
    """
    if isinstance(base, DeclaredSweepCell):
        declared = replace(
            base.declared, records=records, partitions=partitions or base.declared.partitions
        )
        return replace(base, records=records, declared=declared)
    if not partitions and not consumers:
        return replace(base, records=records)
    settings = Settings.of(base.settings)
    fewer = replace(
        settings,
        topic=replace(settings.topic, partitions=partitions or settings.topic.partitions),
        consumer=replace(settings.consumer, count=consumers or settings.consumer.count),
    )
    scenario = replace(base.scenario, expect={base.semantic: Predicted(settings=fewer)})
    return replace(base, records=records, scenario=scenario)


def partitions_of(base: Cell) -> int:
    """Return the number of partitions of a pipeline's topics."""
    return (
        base.declared.partitions
        if isinstance(base, DeclaredSweepCell)
        else Settings.of(base.settings).topic.partitions
    )


def consumers_of(base: Cell) -> int:
    """Return how many consumers a pipeline has; 1 for a declared one, whose consumers lostack
    cannot count.
    """
    return 1 if isinstance(base, DeclaredSweepCell) else Settings.of(base.settings).consumer.count


def fewest_of(base: Cell) -> int:
    """Return how many records a pipeline's load has at least: all, if its own programs make it."""
    own = isinstance(base, DeclaredSweepCell) and base.declared.input.kind is InputKind.OWN
    return base.records if own else LEAST_RECORDS


def plan_of_files(files: Iterable[Path], reports: Path, jobs: int, command: str) -> RunPlan:
    """Return the plan to run scenario files.

    Raises:
        SelectionError: two files describe the same cell, or a file's pipeline is unknown.
        UsageError: a file is not a scenario.
    """
    cells: list[Cell] = []
    systems: dict[str, Launcher] = {}
    for file in dict.fromkeys(files):
        found = FoundScenario.load(file)
        what = found.declaration or found.pipeline
        sweep = sweep_of(
            SweepSettings(
                what,
                found.client,
                found.seed,
                found.records,
                jobs,
                (1, 1),
                command,
                bool(found.declaration),
                found.system,
                found.like,
            ),
            reports,
            keep=False,
        )
        jobs = min(
            jobs, sweep.settings.jobs
        )  # a declared pipeline may take only one cell at a time
        cells.append(
            found.cell(loaded(sweep.base, found.records, found.partitions, found.consumers))
        )
        systems.setdefault(sweep.system.name, sweep.system)
    if len({cell.id for cell in cells}) < len(cells):
        raise SelectionError("two of these scenario files describe the same cell: leave one out")
    return RunPlan(
        systems=tuple(systems.values()),
        cells=tuple(cells),
        not_applicable=(),
        reports=reports,
        jobs=jobs,
        command=command,
        seeds=tuple(sorted({cell.seed for cell in cells})),
        records=max(cell.records for cell in cells),
    )


def _offered(system: str) -> list[tuple[Pipeline, Semantic]]:
    """Return the pipelines of a system, each with the semantics that it is offered under, in their
    order.
    """
    pipelines = {
        one.pipeline.name: one.pipeline
        for one in registry.scenarios()
        if registry.runs(system, one)
    }
    return [
        (pipeline, semantic) for pipeline in pipelines.values() for semantic in pipeline.recipes
    ]


def _means(pattern: str, name: str) -> bool:
    return fnmatch.fnmatchcase(name, pattern) or name.partition("/")[0] == pattern
