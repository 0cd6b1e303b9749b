"""The commands. Everything a command prints is made elsewhere; this file only connects."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from enum import IntEnum
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness import registry
from harness.core.cell import DEFAULT_RECORDS
from harness.core.history import HistoryError
from harness.core.scenario import NotApplicable, Predicted, RefusedByClient
from harness.interfaces import EnvironmentFailure
from harness.progress import make_progress
from harness.registry import UnknownNameError
from harness.report import RENDERERS, write_reports
from harness.report.summary import summarise
from harness.runner import RunPlan
from harness.runner import run as run_cells
from harness.saved import SavedRunError, load_run
from harness.selection import MOST_SEEDS, SelectionError, select

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.core.scenario import Expectation
    from harness.saved import CellResult, SavedRun


class Exit(IntEnum):
    """Exit codes. The worst wins: a broken promise beats a void run."""

    KEPT = 0
    BROKEN = 1
    USAGE = 2
    ENVIRONMENT = 3
    VOID = 4
    INTERRUPTED = 130


EPILOG = (
    "Exit codes: 0 every promise kept and every control convicted; 1 a promise broken, or a control not convicted; "
    "2 wrong use; 3 the machine lacks something; 4 a cell void or stuck, or not everything planned was run; 130 Ctrl-C."
)
app = typer.Typer(
    name="lostack", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, epilog=EPILOG,
    help="Crashes real messaging systems at exact points and counts what was lost and what was duplicated.",
)  # fmt: skip

Only = Annotated[list[str] | None, typer.Option(help="Only cells whose id has these words, or fits this glob. May be repeated.")]
Semantics = Annotated[list[str] | None, typer.Option("--semantic", help="Only this semantic. May be repeated.")]
Reports = Annotated[Path, typer.Option(help="Where runs are written.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON to standard output, and nothing else there.")]
Directory = Annotated[Path, typer.Argument(help="A saved run, e.g. reports/latest.")]


@app.callback(invoke_without_command=True)
def _options(*, show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if show_version:
        typer.echo(f"lostack {version('lostack')}")
        raise typer.Exit


@app.command(epilog=EPILOG)
def run(
    *,
    only: Only = None,
    semantic: Semantics = None,
    seed: Annotated[int, typer.Option(help="The seed: target record, keys, sizes and jitter are drawn from it.")] = 1,
    seeds: Annotated[int, typer.Option(help="How many seeds, counting from --seed.")] = 1,
    records: Annotated[int, typer.Option(help="Records per cell.")] = DEFAULT_RECORDS,
    jobs: Annotated[int, typer.Option(help="How many cells share a broker at once.", min=1, max=64)] = 3,
    reports: Reports = Path("reports"),
    system: Annotated[str, typer.Option(help="The system under test.")] = "kafka",
    as_json: AsJson = False,
) -> None:
    """Run cells against a real system, judge them, and write the report."""
    if not 1 <= seeds <= MOST_SEEDS:
        raise SelectionError(f"--seeds {seeds}: from 1 to {MOST_SEEDS}")
    chosen = select(
        registry.scenarios(), only=only or (), semantics=semantic or (), seeds=range(seed, seed + seeds), records=records,
        system=registry.known(system, registry.SYSTEMS, "system"),
    )  # fmt: skip
    plan = RunPlan(
        system=registry.system(system), cells=chosen.cells, not_applicable=chosen.not_applicable, reports=reports,
        jobs=jobs, command=shlex.join(["lostack", *sys.argv[1:]]), seeds=chosen.seeds, records=records,
    )  # fmt: skip
    with make_progress(sys.stderr if as_json else sys.stdout) as progress:
        saved = run_cells(plan, progress)
    _finish(saved, as_json=as_json)


@app.command("list")
def list_cells(*, only: Only = None, semantic: Semantics = None, as_json: AsJson = False) -> None:
    """Show every cell with what theory predicts, and those that do not apply with their reason."""
    everything = registry.scenarios()
    chosen = select(everything, only=only or (), semantics=semantic or ())
    rows = [{"id": cell.id, "predicted": _predicted(cell.expectation)} for cell in chosen.cells]
    rows += [{"id": row.id, "predicted": f"n/a: {row.because}"} for row in chosen.not_applicable]
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        typer.echo(f"{row['id']:<100} {row['predicted']}")


@app.command(epilog=EPILOG)
def judge(directory: Directory, *, as_json: AsJson = False) -> None:
    """Judge a saved run again, from its histories alone, and rewrite its reports."""
    _finish(load_run(directory.resolve()), as_json=as_json)


@app.command()
def report(
    directory: Directory = Path("reports/latest"),
    *,
    form: Annotated[str | None, typer.Option("--format", help=f"Print one of: {', '.join(RENDERERS)}.")] = None,
) -> None:
    """Render the reports of a saved run, or print one."""
    saved = load_run(directory.resolve())
    if form is None:
        for file in write_reports(saved):
            typer.echo(file)
    else:
        typer.echo(RENDERERS[registry.known(form, RENDERERS, "format")].render(saved))


@app.command()
def doctor(*, as_json: AsJson = False) -> None:
    """Say what is there, what is missing, and how to get it."""
    from harness.doctor import diagnose  # noqa: PLC0415 - looks at everything; nobody else needs it

    findings = diagnose()
    if as_json:
        typer.echo(json.dumps([{"name": f.name, "ok": f.ok, "detail": f.detail, "remedy": f.remedy} for f in findings], indent=1))
    else:
        for finding in findings:
            typer.echo(f"{'ok     ' if finding.ok else 'MISSING'} {finding.name:<22} {finding.detail}")
            if not finding.ok and finding.remedy:
                typer.echo(f"        {'':<22} → {finding.remedy}")
    if not all(finding.ok for finding in findings):
        raise typer.Exit(Exit.ENVIRONMENT)


def rerun_line(result: CellResult, records: int) -> str:
    """Return the command that runs exactly this cell again."""
    return f"lostack run --only '{result.plan.id}' --seed {result.plan.seed} --records {records}"


def _finish(saved: SavedRun, *, as_json: bool) -> None:
    """Write the reports, say what came out, and leave with the exit code."""
    files = write_reports(saved)
    summary = summarise(saved)
    if as_json:
        typer.echo(RENDERERS["json"].render(saved))
    else:
        for result in saved.results:
            if not result.verdict.green:
                typer.echo(f"\n{result.verdict.label.upper()}  {result.plan.id}\n  {result.verdict.reason}")
                typer.echo(f"  again: {rerun_line(result, saved.info.records)}")
                typer.echo(f"  saved: {result.directory}")
        typer.echo(f"\n{summary.sentence}")
        typer.echo(f"reports: {', '.join(os.path.relpath(file) for file in files)}")
    raise typer.Exit(summary.exit_code)


def _predicted(expectation: Expectation) -> str:
    match expectation:
        case Predicted():
            control = "  (control: must be convicted)" if expectation.control else ""
            return f"lost {expectation.lost.text()}, duplicated {expectation.duplicated.text()}{control}"
        case RefusedByClient():
            return f"refused by the client: {expectation.because}"
        case NotApplicable():
            return f"n/a: {expectation.because}"


_USER_ERRORS: tuple[tuple[type[Exception], Exit], ...] = (
    (SelectionError, Exit.USAGE),
    (UnknownNameError, Exit.USAGE),
    (SavedRunError, Exit.USAGE),
    (HistoryError, Exit.ENVIRONMENT),
    (EnvironmentFailure, Exit.ENVIRONMENT),
)


def main() -> None:
    """Run the command line: one clear line for a user's mistake, no traceback."""
    signal.signal(signal.SIGTERM, _terminated)
    _guarded(lambda: app())


def _guarded(act: Callable[[], Any]) -> None:
    try:
        act()
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        sys.exit(Exit.INTERRUPTED)
    except tuple(kind for kind, _ in _USER_ERRORS) as error:
        typer.echo(f"lostack: {error}", err=True)
        sys.exit(next(code for kind, code in _USER_ERRORS if isinstance(error, kind)))
    except OSError as error:
        if error.filename is None:
            raise
        typer.echo(f"lostack: cannot use {error.filename}: {error.strerror}", err=True)
        sys.exit(Exit.ENVIRONMENT)


def _terminated(*_: object) -> None:
    """Treat SIGTERM as Ctrl-C: cells end, and the report says that it is partial."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
