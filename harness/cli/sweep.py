"""``lostack sweep``: a fault at every step of a run, and the outcome of each."""

from __future__ import annotations

import os
import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.options import AsJson, Reports, SweepKeepFiles, is_said, jobs_of
from harness.cli.telling import complain, tell, tell_json_text, tell_lines
from harness.matrix.alone import LOCK, alone_in
from harness.matrix.progress import make_progress
from harness.model.cell import DEFAULT_RECORDS
from harness.model.closing import Closing
from harness.model.exits import ExitCode
from harness.model.failures import EnvironmentFailure, UsageError
from harness.model.keep import Keep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.matrix.listener import Progress
    from harness.sweep.planning import Planned
    from harness.sweep.settings import SweepSettings
    from harness.sweep.sweeping import Sweep

SWEEPS = "sweeps"
OWN_AT_ONCE = 3
"""How many cells of lostack's own pipelines share a broker by default, for each of this machine's
cores: they mostly wait.
"""
MOST_OF_OWN = 6
"""With more at once more points prove nothing: the load is over before a broker's death is."""
OF_A_USER = 4
"""How many cells of a declared pipeline run at once at most by default, each with its broker."""


def sweep(
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(help="The declaration of your pipeline, e.g. pipeline.toml.")
    ] = None,
    *,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="A pipeline of lostack's own: plain/exactly-once, plain, a glob. May be repeated."
        ),
    ] = None,
    client: Annotated[
        str | None, typer.Option(help="The client (confluent-kafka, confluent-kafka==2.3.0).")
    ] = None,
    system: Annotated[str | None, typer.Option(help="The system under test.")] = None,
    like: Annotated[
        str | None,
        typer.Option(metavar="SCENARIO", help="Use the settings of this scenario of lostack's."),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="The seed: keys, sizes and the sample are drawn from it.", min=0)
    ] = 1,
    records: Annotated[int, typer.Option(help="Records per cell.")] = DEFAULT_RECORDS,
    minutes: Annotated[
        float | None, typer.Option(help="Begin no cell after this many minutes.", min=0)
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=64,
            help="How many cells run at once. Those of lostack's own pipelines share a broker; "
            "those of your pipeline have one each. By default 3 for each core and at most 6, "
            "for your pipeline two more than cores and at most 4.",
        ),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(metavar="K/N", help="Run only this part of the points, from 1/N to N/N."),
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="Continue the sweep in this folder.")] = None,
    act: Annotated[
        list[str] | None,
        typer.Option(
            help="Only acts that begin with this: kill, lose, late, refuse, ... May be repeated."
        ),
    ] = None,
    depth: Annotated[
        int,
        typer.Option(
            help="With 2, also a second fault during each kind of recovery.", min=1, max=2
        ),
    ] = 1,
    explain: Annotated[
        bool, typer.Option("--explain", help="Make the dry runs, show what would be run, and stop.")
    ] = False,
    exit_first: Annotated[
        bool,
        typer.Option(
            "--exit-first",
            help="Begin no further point when one of this run is broken; shrink what was found.",
        ),
    ] = False,
    until_dry: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Begin no further point when so many in turn taught nothing: no new protocol "
            "state was struck, and no act had a new outcome.",
        ),
    ] = None,
    findings: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Keep each finding in this folder as a scenario that pytest collects.",
        ),
    ] = None,
    reports: Reports = Path("reports"),
    keep: SweepKeepFiles = Keep.BROKEN,
    as_json: AsJson = False,
) -> None:
    """Crash a pipeline at every step of its run, and judge each by what it claims."""
    from harness.sweep.pipelines import sweep_of  # noqa: PLC0415 - brings systems; nobody else needs it
    from harness.sweep.settings import SweepSettings  # noqa: PLC0415

    begun = time.monotonic()
    if findings is not None and findings.exists() and not findings.is_dir():
        raise UsageError(f"--findings {findings}: this is a file: name a folder")
    if explain and as_json:
        raise UsageError("--explain prints the plan as text: leave out --json")
    _check_acts(act or ())
    until = None if minutes is None else begun + 60 * minutes
    if resume is None:
        command = shlex.join(["lostack", *sys.argv[1:]])
        asked = SweepSettings(
            "",
            client or "",
            seed,
            records,
            (jobs or _own_at_once()) if file is None else jobs_of(jobs, more=2, most=OF_A_USER),
            _shard(shard),
            command,
            system=system or "",
            like=like or "",
            acts=tuple(act or ()),
            depth=depth,
        )
        sweeps = _begun(file, only or (), asked, reports, as_json=as_json)
    elif file is None and not only:
        again = SweepSettings.load(resume)
        _check_same(context, again)
        sweeps = [sweep_of(replace(again, jobs=jobs or again.jobs), resume)]
    else:
        raise UsageError(
            "--resume continues with the sweep's own pipeline: leave out the declaration and --only"
        )
    for one in sweeps:
        one.exit_first, one.until_dry, one.keep = exit_first, until_dry, keep
    try:
        code = _run_all(sweeps, until, explain=explain, findings=findings, as_json=as_json)
    except EnvironmentFailure:
        if resume is None:
            _forget(sweeps)
        raise
    raise typer.Exit(code)


def _run_all(
    sweeps: Sequence[Sweep],
    until: float | None,
    *,
    explain: bool,
    findings: Path | None,
    as_json: bool,
) -> ExitCode:
    """Run sweeps one after the other, and return the worst exit code. None begins behind Ctrl-C, or
    behind the first broken point with --exit-first.

    Raises:
        UsageError: another command runs in the folder of one.
    """
    codes = []
    for one in sweeps:
        with alone_in(one.directory):
            codes.append(_run(one, until, explain=explain, findings=findings, as_json=as_json))
        if one.interrupted or one.found_first:
            break
    if left := sweeps[len(codes) :]:
        why = "Ctrl-C" if ExitCode.INTERRUPTED in codes else "--exit-first"
        complain(f"not begun, because of {why}: {', '.join(one.settings.what for one in left)}")
        _forget(left)
    worst = (ExitCode.INTERRUPTED, ExitCode.BROKEN, ExitCode.VOID)
    return next((code for code in worst if code in codes), ExitCode.KEPT)


def _run(
    one: Sweep, until: float | None, *, explain: bool, findings: Path | None, as_json: bool
) -> ExitCode:
    """Run one sweep, print its outcome, and return its exit code."""
    from harness.sweep.shrinking import keep_all  # noqa: PLC0415 - as above
    from harness.sweep.telling import as_json_text, summary_of, write_sweep  # noqa: PLC0415

    try:
        with make_progress(sys.stderr if as_json else sys.stdout) as progress:
            planned = _plan(one, progress, until)
            if isinstance(planned, ExitCode):
                return planned
            if explain:
                return ExitCode.KEPT
            planned = _points(one, planned, progress, until)
    except KeyboardInterrupt:
        one.interrupted = True
        _go_on(one)
        return ExitCode.INTERRUPTED
    finally:
        _close(one)
    outcomes = one.outcomes(planned)
    summary = summary_of(one, planned, outcomes)
    files = (
        *write_sweep(one, planned, outcomes, summary),
        *(keep_all(one, outcomes, findings) if findings else ()),
    )
    if as_json:
        tell_json_text(as_json_text(one, planned, outcomes, summary))
    else:
        tell_lines(summary.lines)
        tell(f"reports: {', '.join(os.path.relpath(each) for each in files)}")
    if one.interrupted:
        _go_on(one)
        return ExitCode.INTERRUPTED
    return summary.exit_code


def _points(one: Sweep, planned: Planned, progress: Progress, until: float | None) -> Planned:
    """Run the points, then the points during recovery, and shrink the findings. Return the plan of
    all that was run.
    """
    from harness.sweep.confirming import confirm_stuck  # noqa: PLC0415 - as above
    from harness.sweep.shrinking import shrink_all  # noqa: PLC0415

    one.run(planned, progress, until)
    if one.settings.depth > 1 and not one.interrupted:
        planned = one.deeper(planned)
        progress.say(
            f"with those during recovery: {sum(map(len, planned.classes.values()))} points, "
            f"{len(planned.chosen)} chosen"
        )
        one.run(planned, progress, until)
    if not one.interrupted:
        try:
            confirm_stuck(one, planned, progress, until)
            shrink_all(one, one.outcomes(planned), planned.usual, progress, until)
        except KeyboardInterrupt:  # the findings are printed all the same
            one.interrupted = True
    return planned


def _plan(one: Sweep, progress: Progress, until: float | None) -> Planned | ExitCode:
    """Make the dry runs and the plan, and print a summary of it. If no point can be run, print why,
    and return the exit code.
    """
    from harness.sweep.sweeping import DryRunError  # noqa: PLC0415 - as above
    from harness.sweep.telling import plan_lines  # noqa: PLC0415

    progress.say(f"sweep of {one.settings.what}: three runs without a fault")
    try:
        one.dry_run(progress)
    except DryRunError as error:
        complain(f"without a fault it is {error.result.verdict.kind}: {error}")
        complain(f"saved: {os.path.relpath(error.result.directory)}")
        return ExitCode.BROKEN if error.result.verdict.kind == "broken" else ExitCode.VOID
    planned = one.plan()
    for line in plan_lines(one, planned, None if until is None else until - time.monotonic()):
        progress.say(line)
    if because := planned.nothing(one.settings):
        complain(f"nothing to sweep: {because}")
        return ExitCode.VOID
    return planned


def _begun(
    file: Path | None, only: Sequence[str], asked: SweepSettings, reports: Path, *, as_json: bool
) -> list[Sweep]:
    """Return the selected sweeps, each with a folder of its own. Raises UsageError if none is
    selected, or if several are and the outcome is to be one JSON document.
    """
    from harness.matrix.room import new_directory  # noqa: PLC0415 - as above
    from harness.sweep.pipelines import sweep_of, swept  # noqa: PLC0415

    if (file is None) == (not only):
        raise UsageError(
            "name a declaration (pipeline.toml), or a pipeline of lostack's with --only (e.g. "
            "plain/exactly-once)"
        )
    if file is not None:
        meant = [replace(asked, what=str(file), declared=True)]
    else:
        meant = [
            replace(asked, what=f"{cell.pipeline}/{cell.semantic}") for cell in swept(only, asked)
        ]
    if as_json and len(meant) > 1:
        raise UsageError(
            f"--json prints one sweep, and --only selects {', '.join(one.what for one in meant)}: "
            "name one of them"
        )
    # a wrong name is told before anything is written
    begun = [sweep_of(each, Path()) for each in meant]
    for one in begun:
        one.begin_in(new_directory(reports / SWEEPS))
    return begun


def _forget(sweeps: Sequence[Sweep]) -> None:
    """Remove the folders of sweeps of which no cell has begun."""
    from harness.latest import MARK  # noqa: PLC0415 - as above
    from harness.matrix.keeping import forget_unbegun  # noqa: PLC0415 - as above
    from harness.saved import SWEEP_FILE  # noqa: PLC0415 - as above

    for one in sweeps:
        forget_unbegun(one.directory, SWEEP_FILE, MARK, LOCK)


def _go_on(one: Sweep) -> None:
    complain(f"interrupted; to continue: lostack sweep --resume {os.path.relpath(one.directory)}")


def _close(one: Sweep) -> None:
    if isinstance(one.system, Closing):
        one.system.close()


def _check_same(context: typer.Context, asked: SweepSettings) -> None:
    """Raise UsageError if an option differs from the one that the sweep was begun with: its points
    would differ.
    """
    if is_said(context, "reports"):
        raise UsageError("--resume writes into the sweep's own folder: leave out --reports")
    begun = {
        "client": asked.client,
        "system": asked.system,
        "like": asked.like,
        "seed": asked.seed,
        "records": asked.records,
        "shard": "/".join(map(str, asked.shard)),
        "act": list(asked.acts),
        "depth": asked.depth,
    }
    for name, was in begun.items():
        now = context.params[name]
        now = list(now) if isinstance(was, list) else now  # typer gives a list, or a tuple
        if is_said(context, name) and now != was:
            said = (
                f"with --{name} {' '.join(was) if isinstance(was, list) else was}"
                if was
                else f"without --{name}"
            )
            raise UsageError(
                f"--{name}: the sweep was begun {said}: leave the option out, or begin a new sweep"
            )


def _check_acts(acts: Sequence[str]) -> None:
    """Raise UsageError if no act begins with one of these names."""
    from harness.registry import suggestion  # noqa: PLC0415 - as above
    from harness.sweep.acts import ACTS, REFUSE  # noqa: PLC0415 - as above

    for act in acts:
        if not any(each.startswith(act) for each in ACTS) and not act.startswith(f"{REFUSE}-"):
            raise UsageError(f"--act {act}: {suggestion(act, ACTS)}")


def _shard(text: str | None) -> tuple[int, int]:
    """Read ``3/16``. Raises UsageError.

    >>> _shard("3/16"), _shard(None)
    ((3, 16), (1, 1))
    """
    if text is None:
        return 1, 1
    part, _, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise UsageError(f"--shard {text}: write the part and the number of parts, e.g. 3/16")
    return int(part), int(parts)


def export(
    finding: Annotated[
        Path, typer.Argument(help="The scenario of a finding, in the folder found of its sweep.")
    ],
    *,
    to: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder to write; it must not exist yet.")
    ] = None,
) -> None:
    """Write a folder for a bug report of a finding: versions, settings, the frames around the
    fault, how to run it again.
    """
    from harness.sweep.exporting import export as write  # noqa: PLC0415 - as above

    tell_lines(write(finding, to or Path(finding.stem)))


def _own_at_once() -> int:
    return min(MOST_OF_OWN, OWN_AT_ONCE * (os.cpu_count() or 1))
