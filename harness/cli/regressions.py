"""``lostack regressions``: try published bugs, and say which versions have them."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from harness import registry
from harness.cli.options import Reports  # noqa: TC001 - typer reads them
from harness.cli.telling import tell, tell_lines, warn
from harness.matrix.progress import make_progress
from harness.matrix.runner import RunPlan
from harness.matrix.runner import run as run_cells
from harness.matrix.selection import MOST_SEEDS, systems_of
from harness.model.cell import DEFAULT_RECORDS
from harness.model.exits import ExitCode
from harness.report.renderers import write_reports
from harness.report.trend import append_run


def regressions(
    *,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this bug. A bug of an engine runs only if it is named. May be repeated."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed.", min=0)] = 1,
    seeds: Annotated[
        int, typer.Option(help="How many seeds, counting from --seed.", min=1, max=MOST_SEEDS)
    ] = 1,
    jobs: Annotated[
        int, typer.Option(help="How many cells share a broker at once.", min=1, max=64)
    ] = 3,
    reports: Reports = Path("reports"),
) -> None:
    """Try the corpus of published bugs: a version with the bug must be convicted, one without it
    acquitted.
    """
    from harness.matrix.regressions import (  # noqa: PLC0415 - nobody else needs it
        cells_of,
        corpus,
        disagreements,
        needs_extra,
        rulings,
    )

    known = corpus()
    names = [
        registry.known(name, [bug.id for bug in known], "published bug") for name in only or ()
    ]
    bugs = [bug for bug in known if bug.id in names or (not names and not needs_extra(bug))]
    if left := [bug.id for bug in known if bug not in bugs and not names]:
        tell(
            "not tried, because an engine is downloaded only for "
            f"{', '.join(f'--only {each!r}' for each in left)}"
        )
    numbers = range(seed, seed + seeds)
    cells = cells_of(bugs, numbers)
    plan = RunPlan(
        systems=systems_of(cells),
        cells=cells,
        not_applicable=(),
        reports=reports,
        jobs=jobs,
        command=shlex.join(["lostack", *sys.argv[1:]]),
        seeds=tuple(numbers),
        records=DEFAULT_RECORDS,
    )
    with make_progress(sys.stdout) as progress:
        saved = run_cells(plan, progress)
    write_reports(saved)
    told = list(rulings(bugs, saved.results))
    tell()
    tell_lines(ruling.text() for ruling in told)
    warn(append_run(saved, disagreements(bugs, saved.results)))
    if saved.info.interrupted:
        raise typer.Exit(ExitCode.INTERRUPTED)
    raise typer.Exit(
        ExitCode.KEPT if all(each.agreed == each.runs > 0 for each in told) else ExitCode.BROKEN
    )
