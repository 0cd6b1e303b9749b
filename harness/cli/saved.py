"""Commands about saved runs: ``lostack judge``, ``report``, ``events``, ``trend`` and
``clients``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness import registry
from harness.cli.finishing import finish
from harness.cli.options import AsJson, Baseline, Directory, Only  # noqa: TC001 - typer reads them
from harness.cli.telling import complain, tell, tell_json_text, tell_lines, tell_text, warn
from harness.latest import run_directory
from harness.matrix.selection import matches
from harness.model import safe_files
from harness.model.exits import ExitCode
from harness.model.failures import UsageError
from harness.report.breaks import HISTORY_FILE, breaks_of, exit_code, read_baseline
from harness.report.clients import client_table
from harness.report.comparing import as_text, write_comparison
from harness.report.comparing import compare as compare_runs
from harness.report.eventlog import event_lines
from harness.report.operations import operation_lines
from harness.report.publishing import publish
from harness.report.record import record_text
from harness.report.renderers import RENDERERS, why_no_index, write_reports
from harness.report.trend import breaks_of_cell, left_out, read_past, write_trend
from harness.saved import SWEEP_FILE, load_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.saved import CellResult, SavedRun


def judge(directory: Directory, *, baseline: Baseline = None, as_json: AsJson = False) -> None:
    """Judge a saved run again, from its histories alone, and rewrite its reports."""
    known = read_baseline(baseline or registry.baseline())
    saved = load_run(run_directory(directory))
    finish(saved, as_json=as_json)
    breaks = breaks_of(saved, known)
    if breaks.sentence:
        complain(breaks.sentence)
    raise typer.Exit(exit_code(saved, breaks))


def report(
    directories: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RUN]...", help="A saved run (reports/latest), or the parts of a sweep."
        ),
    ] = None,
    *,
    form: Annotated[
        str | None, typer.Option("--format", help=f"Print one of: {', '.join(RENDERERS)}.")
    ] = None,
    record: Annotated[
        str | None,
        typer.Option(help="Print the path of this record, hop by hop, in each cell that has it."),
    ] = None,
    only: Only = None,
    compare: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            metavar="A B",
            help=(
                "Show two saved runs side by side. Exit with 1 if they are of two runtimes and a "
                "verdict differs."
            ),
        ),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(
            "--publish",
            metavar="DIR",
            help="Write the run's matrix, numbers and page into this folder, to be committed.",
        ),
    ] = None,
) -> None:
    """Render the reports of a saved run, print one, follow a record (in the cells of --only), or
    compare two runs.

    Given all parts of a sweep (--shard), write one report of them all into the folder of the first.
    """
    directory, *others = directories or [Path("reports/latest")]
    if compare is not None:
        _compare(*compare)
        return
    if safe_files.exists(directory, SWEEP_FILE):
        from harness.sweep.telling import report_of  # noqa: PLC0415 - brings systems; nobody else needs it

        told = report_of([directory, *others])
        tell_lines(told.lines)
        raise typer.Exit(told.exit_code)
    if others:
        raise UsageError(
            f"{others[0]}: only the parts of a sweep can be given together; name one run"
        )
    saved = load_run(run_directory(directory))
    if to is not None:
        for file in publish(saved, to):
            tell(f"{file}  {file.stat().st_size:,} bytes")
    elif record is not None:
        tell_text(record_text(_meant(saved, only), record))
    elif form is None:
        tell_lines(write_reports(saved))
        warn(why_no_index(saved))
    else:
        renderer = RENDERERS[registry.known(form, RENDERERS, "format")]
        (tell_json_text if renderer.name == "json" else tell_text)(renderer.render(saved))


def events(
    directory: Annotated[Path, typer.Argument(metavar="RUN", help="A saved run.")] = Path(
        "reports/latest"
    ),
    *,
    record: Annotated[str | None, typer.Option(help="Only what is about this record.")] = None,
    frames: Annotated[
        bool,
        typer.Option(
            "--frames",
            help="Only what the wire saw: frames, connections, and what its rules did to them.",
        ),
    ] = False,
    operations: Annotated[
        bool,
        typer.Option(
            "--operations",
            help=(
                "Print one cell as operations (send, poll, transaction) that Jepsen's workload "
                "for logs reads."
            ),
        ),
    ] = False,
    only: Only = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print the lines of the history as they are, one JSON object each."
        ),
    ] = False,
) -> None:
    """List the events of a saved run, cell by cell, in the order of time: all, those of one record,
    or those on the wire.

    Frames are shown by the protocol's own names: step, version, correlation id, error.
    """
    meant = _meant(load_run(run_directory(directory)), only)
    if operations:
        if record is not None or frames or as_json:
            raise UsageError("--operations prints a whole cell: give it with --only alone")
        for line in operation_lines(meant):
            tell_text(line)
        return
    for line in event_lines(meant, record=record, frames=frames, as_json=as_json):
        (tell_json_text if as_json else tell)(line)


def trend(
    directory: Annotated[
        Path, typer.Argument(metavar="REPORTS", help="The folder of many runs.")
    ] = Path("reports"),
) -> None:
    """Draw which cells broke when, and since which commit, from the history of all runs in a folder
    (history.jsonl).
    """
    file = write_trend(directory)
    past, damaged = read_past(directory)
    for broke in breaks_of_cell(past):
        if broke.mended is None:
            tell(f"{broke.outcome}  {broke.cell}  {broke.sentence}")
    if damaged:
        complain(left_out(damaged, str(directory / HISTORY_FILE)))
    tell(f"trend: {os.path.relpath(file)}")


def clients(
    directories: Annotated[list[Path], typer.Argument(help="Saved runs, e.g. one per client.")],
) -> None:
    """Show which client keeps which promise, at which version: its outcomes, and the cells at which
    clients differ.
    """
    tell_text(client_table([load_run(run_directory(directory)) for directory in directories]))


def _meant(saved: SavedRun, only: Sequence[str] | None) -> list[CellResult]:
    """Return the cells of a run that are meant. Raises UsageError where there is none."""
    found = [
        one
        for one in saved.results
        if not only or any(matches(one.plan.id, pattern) for pattern in only)
    ]
    if not saved.results:
        raise UsageError(
            f"{saved.info.id} has no cell: it ended before its first cell, or its folder cells "
            "was removed"
        )
    if not found:
        raise UsageError(f"no cell of {saved.info.id} matches {', '.join(map(repr, only or ()))}")
    return found


def _compare(before: Path, after: Path) -> None:
    """Print what changed between two runs, and write it as a page beside the second one's report.

    If they are of two runtimes and a verdict differs, exit with 1.
    """
    comparison = compare_runs(*(load_run(run_directory(named)) for named in (before, after)))
    tell_text(as_text(comparison))
    tell(f"page: {os.path.relpath(write_comparison(comparison))}")
    if comparison.red:
        raise typer.Exit(ExitCode.BROKEN)
