"""``lostack run``: run cells of lostack's scenarios against a real system, and report."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from harness import registry
from harness.cli.finishing import finish
from harness.cli.options import (
    AsJson,
    Baseline,
    Clients,
    KeepFiles,
    Only,
    Reports,
    Semantics,
    is_said,
)
from harness.cli.telling import complain, tell_json, tell_lines, warn
from harness.matrix.progress import make_progress
from harness.matrix.room import new_directory
from harness.matrix.runner import RunBrokenError, RunPlan
from harness.matrix.runner import run as run_cells
from harness.matrix.selection import MOST_SEEDS, SelectionError, select
from harness.model import safe_files
from harness.model.cell import DEFAULT_RECORDS
from harness.model.exits import ExitCode
from harness.model.failures import EnvironmentFailure
from harness.model.keep import Keep
from harness.model.scenario import Suite
from harness.report.breaks import breaks_of, exit_code, read_baseline
from harness.report.trend import append_run
from harness.report.writing import ReportError, append_step_summary, point_latest
from harness.saved import SavedRunError, load_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.report.breaks import KnownBreak


OF_OWN: Final = (
    "only", "semantic", "client", "seed", "seeds", "records", "system", "runtime", "suite",
)  # fmt: skip
"""The options that select cells of lostack's own scenarios."""


def run(
    context: typer.Context,
    *,
    only: Only = None,
    scenario: Annotated[
        list[Path] | None,
        typer.Option(help="A scenario file that a sweep has written. May be repeated."),
    ] = None,
    semantic: Semantics = None,
    client: Clients = None,
    seed: Annotated[
        list[int] | None,
        typer.Option(
            help=(
                "The seed, from which target record, keys, sizes and jitter are drawn. May be "
                "repeated."
            ),
            show_default="1",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds, counting from --seed.")] = 1,
    records: Annotated[int, typer.Option(help="Records per cell.")] = DEFAULT_RECORDS,
    jobs: Annotated[
        int, typer.Option(help="How many cells share a broker at once.", min=1, max=64)
    ] = 3,
    reports: Reports = Path("reports"),
    system: Annotated[
        str | None, typer.Option(help="The system under test. By default Kafka and Spark.")
    ] = None,
    runtime: Annotated[
        str, typer.Option(help=f"Where nodes live: {' or '.join(registry.RUNTIMES)}.")
    ] = "process",
    suite: Annotated[
        str,
        typer.Option(
            help=(
                "Which scenarios run without --only: core (the main ones), day (more) or night "
                "(all)."
            )
        ),
    ] = Suite.CORE.value,
    baseline: Baseline = None,
    hours: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Run --seeds seed after seed, and begin no cell after so many hours (exit code 4 "
            "if cells are left then). Of green cells one line stays. --resume continues it.",
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(help="Continue in the folder of a run with --hours; give the same options."),
    ] = None,
    keep: KeepFiles = Keep.BROKEN,
    as_json: AsJson = False,
) -> None:
    """Run cells against a real system, judge them, and write the report."""
    known = read_baseline(baseline or registry.baseline())
    given = [f"--{name}" for name in OF_OWN if scenario and is_said(context, name)]
    if given:
        raise SelectionError(
            f"--scenario goes without {', '.join(given)}: its files say what is run"
        )
    if not 1 <= seeds <= MOST_SEEDS:
        raise SelectionError(f"--seeds {seeds}: from 1 to {MOST_SEEDS}")
    first, *others = seed or [1]
    if others and seeds > 1:
        raise SelectionError(
            "--seeds counts from one --seed: give one --seed, or leave out --seeds"
        )
    command = shlex.join(["lostack", *sys.argv[1:]])
    if scenario:
        from harness.sweep.pipelines import plan_of_files  # noqa: PLC0415 - brings systems; nobody else needs it

        plan = plan_of_files(scenario, reports, jobs, command)
    else:
        chosen = select(
            registry.scenarios(),
            only=only or (),
            semantics=semantic or (),
            seeds=tuple(dict.fromkeys([first, *others])) if others else range(first, first + seeds),
            records=records,
            system=system,
            runtime=runtime,
            clients=client or (),
            suite=suite,
        )
        plan = RunPlan(
            systems=chosen.systems(),
            cells=chosen.cells,
            not_applicable=chosen.not_applicable,
            reports=reports,
            jobs=jobs,
            command=command,
            seeds=chosen.seeds,
            records=records,
        )
    plan = replace(plan, keep=keep)
    if hours is not None or resume is not None:
        _seed_by_seed(plan, known, hours, resume, as_json=as_json)
    try:
        with make_progress(sys.stderr if as_json else sys.stdout) as progress:
            saved = run_cells(plan, progress)
    except RunBrokenError as error:
        with suppress(ReportError, SavedRunError):  # why the run broke is the thing to tell
            finish(load_run(error.directory), as_json=as_json)
            complain("the run broke down: the report is PARTIAL")
        raise
    finish(saved, as_json=as_json)
    breaks = breaks_of(saved, known)
    code = exit_code(saved, breaks)
    if breaks.sentence:
        complain(breaks.sentence)
    warn(append_run(saved, breaks), point_latest(saved), append_step_summary(saved, os.environ))
    if saved.info.interrupted:
        complain("interrupted: the report is PARTIAL")
        code = ExitCode.INTERRUPTED
    raise typer.Exit(code)


def _seed_by_seed(
    plan: RunPlan,
    known: Sequence[KnownBreak],
    hours: float | None,
    resume: Path | None,
    *,
    as_json: bool,
) -> NoReturn:
    """Run a plan seed by seed, in a folder in which it can be continued."""
    from harness.soak import seeds  # noqa: PLC0415 - nobody else needs it

    if resume is not None and not safe_files.exists(resume, seeds.SEEDS_FILE):
        raise SelectionError(
            f"--resume {resume}: this is not the folder of a run with --hours: it has no "
            f"{seeds.SEEDS_FILE}"
        )
    folder = resume or new_directory(plan.reports, "seeds-")
    asked = seeds.Seeds(
        folder,
        plan,
        lambda result: any(one.means(result) and one.explains(result) for one in known),
        hours,
    )
    try:
        with make_progress(sys.stderr if as_json else sys.stdout) as progress:
            found = seeds.run_seeds(asked, progress)
    except EnvironmentFailure:
        _tell_how_to_continue(folder)
        raise
    if as_json:
        tell_json(seeds.as_json(found, asked))
    else:
        tell_lines(seeds.as_lines(found, asked))
    if len(found.rows) < len(plan.cells):
        _tell_how_to_continue(folder)
    raise typer.Exit(seeds.code_of(found, asked))


def _tell_how_to_continue(folder: Path) -> None:
    complain(
        "to continue: lostack run with the same options and --resume "
        f"{shlex.quote(os.path.relpath(folder))}"
    )
