"""``lostack check``: crash a declared pipeline at its failure points, and judge each cell."""

from __future__ import annotations

import json
import os
import shlex
import sys
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from harness.cli.finishing import finish
from harness.cli.options import AsJson, Baseline, Jobs, KeepFiles, Reports, jobs_of
from harness.cli.telling import complain, tell, warn
from harness.judge.verdict import UNCLEAN, Kind
from harness.matrix.progress import make_progress
from harness.matrix.room import cannot_write
from harness.model.exits import ExitCode
from harness.model.failures import UsageError
from harness.model.keep import Keep
from harness.model.semantics import Semantic  # noqa: TC001 - typer reads it
from harness.pipelines.declaration import EXPECTABLE
from harness.pipelines.failure_points import NO_FAULT
from harness.pipelines.pairs import Pairs
from harness.report.advising import last_line_sentences
from harness.report.breaks import breaks_of, exit_code, read_baseline
from harness.report.record import advice
from harness.report.renderers import write_reports
from harness.report.trend import append_run
from harness.report.writing import append_step_summary, point_latest
from harness.saved import load_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.pipelines import Pipeline
    from harness.pipelines.cells import DeclaredCell
    from harness.report.breaks import KnownBreak
    from harness.saved import CellResult, SavedRun
    from harness.systems.declared.system import DeclaredSystem

DECLARATION: Final = Path("pipeline.toml")
"""The file that ``lostack init`` writes."""


def check(
    file: Annotated[
        Path, typer.Argument(help="The declaration of your pipeline, by default pipeline.toml.")
    ] = DECLARATION,
    *,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this failure point. May be repeated.")
    ] = None,
    long: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Also points that take longer: time-outs, bursts, brokers that come back.",
        ),
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Make the dry run, show what would be done, and stop.")
    ] = False,
    pairs: Annotated[
        Pairs, typer.Option(help="Which pairs of faults are tried: a second one in the recovery.")
    ] = Pairs.NONE,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 4 if a cell shows no effect of its fault.")
    ] = False,
    seed: Annotated[
        int,
        typer.Option(help="The seed, from which target record, keys and sizes are drawn.", min=0),
    ] = 1,
    jobs: Jobs = None,
    attach: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="A running Kafka: see docs/attach.md.")
    ] = None,
    attach_remote: Annotated[
        bool, typer.Option("--attach-remote", help="Allow a broker on another machine.")
    ] = False,
    attach_listeners: Annotated[
        bool,
        typer.Option(
            "--attach-listeners",
            help="Use listeners of the broker, one for each stage: see docs/attach.md.",
        ),
    ] = False,
    run: Annotated[
        str | None,
        typer.Option(metavar="COMMAND", help="With --attach: your own test is the load, see docs."),
    ] = None,
    claims: Annotated[
        Semantic | None, typer.Option(help="With --run: what your programs promise.")
    ] = None,
    identity: Annotated[
        str | None,
        typer.Option("--id", metavar="REGEX", help="With --run: what names a record in its value."),
    ] = None,
    baseline: Baseline = None,
    reports: Reports = Path("reports"),
    keep: KeepFiles = Keep.BROKEN,
    as_json: AsJson = False,
) -> None:
    """Crash a pipeline of your own at every failure point it has, and judge it by what
    it claims.
    """
    if run is not None:
        from harness.cli.trying import TryRequest, try_test  # noqa: PLC0415 - nobody else needs it

        mine = TryRequest(
            attach, run, claims, identity, tuple(only or ()), seed, reports, attach_remote
        )
        raise typer.Exit(try_test(mine, long=long, explain=explain, as_json=as_json))
    if claims is not None or identity is not None:
        raise UsageError("--claims and --id belong to --run: a pipeline declares them in its file")
    from harness.matrix.checking import Check, at_once  # noqa: PLC0415 - as above
    from harness.matrix.explaining import explanation, untried  # noqa: PLC0415 - as above
    from harness.matrix.seen import seen_in  # noqa: PLC0415 - as above

    known = read_baseline(baseline) if baseline else ()
    pipeline = _declared(file)
    system = _system(pipeline, attach, remote=attach_remote, listeners=attach_listeners)
    command = shlex.join(["lostack", *sys.argv[1:]])
    asked = Check(pipeline, system, reports, command, seed, keep=keep, long=long, pairs=pairs)
    meant = [*chain(*asked.plan({}, only or ()))]  # a wrong name is told before anything is started
    asked = replace(asked, jobs=min(jobs_of(jobs), len(meant)))
    try:
        with make_progress(sys.stderr if as_json else sys.stdout) as progress:
            progress.say("dry run: no fault")
            try:
                # the list of points has a run without a fault, too: that one waits for what comes
                # late, beside the others
                rehearsed = asked.rehearsed(
                    progress, brief=explain or any(cell.scenario.id == NO_FAULT for cell in meant)
                )
            except KeyboardInterrupt:
                complain("interrupted during the dry run: no failure point was tried")
                raise typer.Exit(ExitCode.INTERRUPTED) from None
            dry, asked = rehearsed.dry, replace(asked, jobs=rehearsed.jobs)
            alone = _tell_dry_run(dry, known)
            seen, late = asked.rehearsals(seen_in(dry), only or (), progress)
            alone = alone or _tell_late(late, known)
            cells, rest = asked.plan(seen, only or ())
            for line in chain(
                explanation(pipeline, seen, [cell.scenario for cell in (*cells, *rest)]),
                asked.left_out(seen, only or ()),
            ):
                progress.say(line)
            whole = [cell.scenario for cell in chain(*asked.plan(seen, ()))]
            missed = untried(
                pipeline, whole, seen
            )  # of all points: a choice leaves nothing untried
            for line in missed:
                progress.say(line)
            progress.say(at_once(rehearsed.jobs, rehearsed.because))
            progress.say(rehearsed.price(pipeline, cells))
        if explain:
            raise typer.Exit(alone or (ExitCode.VOID if missed else ExitCode.KEPT))
        with make_progress(sys.stderr if as_json else sys.stdout) as progress:
            saved = asked.faults(cells, rest, progress, missed)
    finally:
        system.close()
    saved = Compared(cells, saved, rehearsed.runs).noted(saved)
    code = _tell_all(saved, file, known, as_json=as_json)
    if (
        strict
        and code is ExitCode.KEPT
        and (unseen := [r.plan.scenario for r in saved.results if not r.verdict.effect])
    ):
        complain(f"--strict: no effect was seen of {', '.join(unseen)}")
        code = ExitCode.VOID
    raise typer.Exit(code if code in {ExitCode.BROKEN, ExitCode.INTERRUPTED} else alone or code)


def _system(
    pipeline: Pipeline, attach: str | None, *, remote: bool, listeners: bool
) -> DeclaredSystem:
    """Return a system on brokers of its own, or on those that run already."""
    from harness.systems.declared.system import DeclaredSystem  # noqa: PLC0415

    if attach is not None:
        from harness.systems.declared.brokers.attached import AttachedKafka  # noqa: PLC0415
        from harness.systems.declared.brokers.attachment import Attachment  # noqa: PLC0415

        attachment = Attachment(attach, pipeline, remote, listeners)
        attachment.check()
        return DeclaredSystem(keep=True, source=AttachedKafka(attachment))
    if pipeline.security and (
        theirs := [name for name in ("ca", "username") if getattr(pipeline.security, name)]
    ):
        own = "lostack's own brokers use their own user and authority, so it is ignored here"
        warn(
            f"security: {' and '.join(theirs)} {'is' if len(theirs) == 1 else 'are'} for "
            f"--attach: {own}"
        )
    return DeclaredSystem(keep=True)


def _declared(file: Path) -> Pipeline:
    """Read a declaration.

    Raises:
        UsageError: nobody has named one, and there is none.
    """
    from harness.pipelines import read_pipeline  # noqa: PLC0415 - nobody else needs it
    from harness.systems.declared.fetchable import check_declared  # noqa: PLC0415

    if file == DECLARATION and not file.exists():
        raise UsageError(
            f"there is no {file} in this folder: lostack init writes one, or name yours: lostack "
            "check FILE"
        )
    pipeline = read_pipeline(file)
    check_declared(pipeline)
    return pipeline


class Compared:
    """Runs with a fault, compared with those without one."""

    def __init__(
        self,
        cells: Sequence[DeclaredCell],
        saved: SavedRun,
        dry: Sequence[tuple[CellResult, DeclaredCell]],
    ) -> None:
        """``dry``: the runs before the faults; the list of points may have one more."""
        self._cells = {cell.id: cell for cell in cells}
        runs = {f"dry-{number}": each for number, each in enumerate(dry, 1)}
        for result in saved.results:
            cell = self._cells.get(result.plan.id)
            if cell is not None and result.plan.scenario == NO_FAULT:
                runs[NO_FAULT] = (result, cell)
        self._dry = {name: each for name, each in runs.items() if each[0].verdict.kind is Kind.KEPT}

    def noted(self, saved: SavedRun) -> SavedRun:
        """Write what is seen of each cell into ``run.json``, for the reports.

        Raises:
            EnvironmentFailure: it cannot be written.
        """
        found = {result.plan.id: tuple(self.lines(result)) for result in saved.results}
        info = replace(saved.info, compared={cell: lines for cell, lines in found.items() if lines})
        try:
            info.save(saved.directory)
        except OSError as error:
            raise cannot_write(saved.directory, error) from error
        return replace(saved, info=info)

    def lines(self, result: CellResult) -> Iterator[str]:
        """Yield where a run that broke the promise, or stood still, parts from those."""
        from harness.sweep.parting import parted_from  # noqa: PLC0415 - nobody else needs it

        cell = self._cells.get(result.plan.id)
        if cell is None or result.verdict.kind not in {Kind.BROKEN, Kind.STUCK}:
            return
        if (found := parted_from(result.directory, cell, self._dry)) is not None:
            yield from found.lines()


def _tell_all(
    saved: SavedRun, file: Path, known: Sequence[KnownBreak], *, as_json: bool
) -> ExitCode:
    """Print the outcomes of the faults, and advice for what broke. Return the exit code; known
    breaks do not count.
    """
    finish(saved, as_json=as_json)
    breaks = breaks_of(saved, tuple(known))
    code = exit_code(saved, breaks)
    if breaks.sentence:
        complain(breaks.sentence)
    if not as_json:
        for result in saved.results:
            for line in chain(advice(result), saved.compared(result)):
                tell(f"  {line}")
        tell(
            "to try every step of a run, not only the named failure points: lostack sweep "
            f"{shlex.quote(str(file))}"
        )
    warn(append_run(saved, breaks), point_latest(saved), append_step_summary(saved, os.environ))
    return code


def _tell_late(results: Sequence[CellResult], known: Sequence[KnownBreak]) -> ExitCode:
    """Say what is wrong in the runs in which only an answer was late, and return the exit code;
    known breaks do not count.
    """
    from harness.matrix.checking import not_tried  # noqa: PLC0415 - as above

    bad = [one for one in results if one.verdict.kind is not Kind.KEPT and not not_tried(one)]
    for each in bad:
        warn(f"{each.verdict.kind} when one answer is late: {each.verdict.reason}")
    if any(one.verdict.kind is Kind.BROKEN and not _is_known(one, known) for one in bad):
        return ExitCode.BROKEN
    unproved = any(one.verdict.kind is not Kind.BROKEN for one in bad)
    return ExitCode.VOID if unproved else ExitCode.KEPT


def _is_known(result: CellResult, known: Sequence[KnownBreak]) -> bool:
    return any(one.means(result) and one.explains(result) for one in known)


def _tell_dry_run(dry: CellResult, known: Sequence[KnownBreak] = ()) -> ExitCode:
    """Say what is wrong in the run without a fault, and return the exit code for it; known breaks
    do not count.

    End the command if the dry run proves nothing.
    """
    if dry.verdict.kind is Kind.KEPT:
        return ExitCode.KEPT
    pages = [
        file
        for file in write_reports(load_run(dry.directory.parent.parent))
        if file.suffix == ".html"
    ]
    saved = (
        f"saved with the logs of its programs in {os.path.relpath(dry.directory)}; its page: "
        f"{os.path.relpath(pages[0])}"
    )
    if dry.verdict.kind is Kind.VOID and dry.verdict.reason.startswith(UNCLEAN):
        warn(
            f"the dry run is {dry.verdict.reason}",
            "if the pipeline does this on purpose, declare it: expects = "
            f"{json.dumps([name for name in EXPECTABLE if getattr(dry.judgement.account, name)])}",
            saved,
        )
        raise typer.Exit(ExitCode.VOID)
    if dry.verdict.kind in {Kind.VOID, Kind.STUCK}:
        warn(
            f"the dry run without a fault proves nothing: {dry.verdict.reason}",
            *last_line_sentences(dry),
            saved,
        )
        raise typer.Exit(ExitCode.VOID)
    warn(
        f"broken without a fault: {dry.verdict.reason}",
        *(f"  {line}" for line in advice(dry)),
        saved,
    )
    return ExitCode.KEPT if _is_known(dry, known) else ExitCode.BROKEN
