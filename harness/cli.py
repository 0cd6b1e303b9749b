"""The commands. Everything a command prints is made elsewhere; this file only connects."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness import registry
from harness.core.cell import DEFAULT_RECORDS
from harness.core.failures import EnvironmentFailure, UsageError
from harness.core.history import HistoryError
from harness.core.scenario import NotApplicable, Predicted, RefusedByClient, Suite
from harness.core.semantics import Semantic
from harness.core.verdict import UNCLEAN, Kind
from harness.pipelines.declaration import EXPECTABLE, DeclarationError, RepeatedIdError
from harness.progress import make_progress
from harness.registry import UnknownNameError
from harness.report import RENDERERS, ReportError, append_step_summary, point_latest, publish, run_directory, write_reports
from harness.report.breaks import BaselineError, append_history, breaks_of, exit_code, read_baseline
from harness.report.clients import client_table
from harness.report.comparing import as_text, write_comparison
from harness.report.comparing import compare as compare_runs
from harness.report.escaping import visible
from harness.report.record import NoRecordError, record_text
from harness.report.summary import ExitCode, rerun_line, summarise
from harness.runner import RunBrokenError, RunPlan
from harness.runner import run as run_cells
from harness.saved import SavedRunError, load_run
from harness.selection import MOST_SEEDS, SelectionError, choose, matches, select, systems_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.core.cell import Cell
    from harness.saved import CellResult, SavedRun

BROKEN_PIPE = 141
"""What a shell shows for a program that died of SIGPIPE: never a success, for nobody has read the verdicts."""
EPILOG = (
    "Exit codes: 0 every promise kept and every control convicted (but for the known breaks of --baseline); "
    "1 a promise broken, or a control not convicted; "
    "2 wrong use; 3 the machine lacks something; 4 a cell void or stuck, or not everything planned was run; 130 Ctrl-C."
)
app = typer.Typer(
    name="lostack", add_completion=False, pretty_exceptions_enable=False, epilog=EPILOG,
    help="Crashes real messaging systems at exact points and counts what was lost and what was duplicated.",
)  # fmt: skip

Only = Annotated[list[str] | None, typer.Option(help="Only cells whose id has these words, or fits this glob. May be repeated.")]
Semantics = Annotated[list[str] | None, typer.Option("--semantic", help="Only this semantic. May be repeated.")]
Clients = Annotated[
    list[str] | None,
    typer.Option("--client", help="Only this client (confluent-kafka, confluent-kafka==2.3.0). May be repeated."),
]
Reports = Annotated[Path, typer.Option(help="Where runs are written.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON to standard output, and nothing else there.")]
Directory = Annotated[Path, typer.Argument(help="A saved run, e.g. reports/latest.")]
Baseline = Annotated[Path | None, typer.Option(help="A file of known breaks, which don't fail the run.")]


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    *,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if show_version:
        typer.echo(f"lostack {_version()}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(ExitCode.USAGE)


@app.command(epilog=EPILOG)
def run(
    *,
    only: Only = None,
    semantic: Semantics = None,
    client: Clients = None,
    seed: Annotated[
        list[int] | None,
        typer.Option(help="The seed: target record, keys, sizes, jitter are drawn from it. May be repeated.", show_default="1"),
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds, counting from --seed.")] = 1,
    records: Annotated[int, typer.Option(help="Records per cell.")] = DEFAULT_RECORDS,
    jobs: Annotated[int, typer.Option(help="How many cells share a broker at once.", min=1, max=64)] = 3,
    reports: Reports = Path("reports"),
    system: Annotated[
        str | None, typer.Option(help="The system under test; all that have pipelines, where none is named.")
    ] = None,
    runtime: Annotated[str, typer.Option(help=f"Where nodes live: {' or '.join(registry.RUNTIMES)}.")] = "process",
    suite: Annotated[
        str, typer.Option(help="Which scenarios, where --only names none: core (the main ones), day (more), night (all).")
    ] = Suite.CORE.value,
    baseline: Baseline = None,
    as_json: AsJson = False,
) -> None:
    """Run cells against a real system, judge them, and write the report."""
    known = read_baseline(baseline or registry.baseline())
    if not 1 <= seeds <= MOST_SEEDS:
        raise SelectionError(f"--seeds {seeds}: from 1 to {MOST_SEEDS}")
    first, *others = seed or [1]
    if others and seeds > 1:
        raise SelectionError("--seeds counts from one --seed: name one, or each of them")
    chosen = select(
        registry.scenarios(), only=only or (), semantics=semantic or (),
        seeds=tuple(dict.fromkeys([first, *others])) if others else range(first, first + seeds),
        records=records, system=system, runtime=runtime, clients=client or (), suite=suite,
    )  # fmt: skip
    plan = RunPlan(
        systems=chosen.systems(), cells=chosen.cells, not_applicable=chosen.not_applicable, reports=reports,
        jobs=jobs, command=shlex.join(["lostack", *sys.argv[1:]]), seeds=chosen.seeds, records=records,
    )  # fmt: skip
    try:
        with make_progress(sys.stderr if as_json else sys.stdout) as progress:
            saved = run_cells(plan, progress)
    except RunBrokenError as error:
        with suppress(ReportError, SavedRunError):  # why the run broke is the thing to tell
            _finish(load_run(error.directory), as_json=as_json)
            _complain("the run broke: the report is PARTIAL")
        raise
    _finish(saved, as_json=as_json)
    breaks = breaks_of(saved, known)
    code = exit_code(saved, breaks)
    if breaks.sentence:
        _complain(breaks.sentence)
    _warn(append_history(saved, breaks), point_latest(saved), append_step_summary(saved, os.environ))
    if saved.info.interrupted:
        _complain("interrupted: the report is PARTIAL")
        code = ExitCode.INTERRUPTED
    raise typer.Exit(code)


@app.command(epilog=EPILOG)
def check(
    file: Annotated[Path, typer.Argument(help="The declaration of your pipeline, e.g. pipeline.toml.")],
    *,
    only: Annotated[list[str] | None, typer.Option(help="Only this failure point. May be repeated.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show what would be done, after the dry run, and stop.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 4 where a cell shows no effect of its fault.")] = False,
    seed: Annotated[int, typer.Option(help="The seed: the target record, keys and sizes are drawn from it.", min=0)] = 1,
    attach: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="A Kafka that is up already (see README).")] = None,
    attach_remote: Annotated[bool, typer.Option("--attach-remote", help="It may be on another machine than this.")] = False,
    reports: Reports = Path("reports"),
    as_json: AsJson = False,
) -> None:
    """Crash a pipeline of your own at every failure point it has, and judge it by what it claims."""
    from harness.checking import Check, advice, explanation, seen_in, untried  # noqa: PLC0415 - brings a system; nobody else needs it
    from harness.pipelines import read_pipeline  # noqa: PLC0415
    from harness.systems.declared.system import DeclaredSystem  # noqa: PLC0415

    pipeline = read_pipeline(file)
    pipeline.check_commands()
    system: DeclaredSystem = DeclaredSystem(keep=True)
    if attach is not None:
        from harness.systems.declared.attached import AttachedKafka, Attachment  # noqa: PLC0415

        attachment = Attachment(attach, pipeline, attach_remote)
        attachment.check()
        system = DeclaredSystem(keep=True, source=AttachedKafka(attachment))
    asked = Check(pipeline, system, reports, shlex.join(["lostack", *sys.argv[1:]]), seed)
    asked.plan({}, only or ())  # a wrong name is told before anything is started
    try:
        with make_progress(sys.stderr if as_json else sys.stdout) as progress:
            progress.say("dry run: no fault")
            try:
                dry = asked.dry_run(progress)
            except KeyboardInterrupt:
                _complain("interrupted in the dry run: nothing is judged")
                raise typer.Exit(ExitCode.INTERRUPTED) from None
            alone = _tell_dry_run(dry)
            seen = seen_in(dry)
            cells, rest = asked.plan(seen, only or ())
            for line in explanation(pipeline, seen, [cell.scenario for cell in (*cells, *rest)]):
                progress.say(line)
            missed = untried(pipeline, [cell.scenario for cell in (*cells, *rest)])
        if explain:
            raise typer.Exit(alone or (ExitCode.VOID if missed and not only else ExitCode.KEPT))
        with make_progress(sys.stderr if as_json else sys.stdout) as progress:
            saved = asked.faults(cells, rest, progress, () if only else missed)
    finally:
        system.close()
    code = _finish(saved, as_json=as_json)
    if not as_json:
        for result in saved.results:
            for line in advice(result):
                typer.echo(f"  {visible(line)}")
    _warn(append_history(saved, breaks_of(saved, ())), point_latest(saved))
    if strict and code is ExitCode.KEPT and (unseen := [r.plan.scenario for r in saved.results if not r.verdict.effect]):
        _complain(f"--strict: no effect was seen of {', '.join(unseen)}")
        code = ExitCode.VOID
    raise typer.Exit(code if code in {ExitCode.BROKEN, ExitCode.INTERRUPTED} else alone or code)


def _tell_dry_run(dry: CellResult) -> ExitCode:
    """Say what is wrong without any fault; return the exit code that it means. Ends the command where it proves nothing."""
    from harness.checking import advice, last_words  # noqa: PLC0415 - as above

    saved = f"saved, with the logs of its programs: {os.path.relpath(dry.directory)}"
    if dry.verdict.kind is Kind.VOID and dry.verdict.reason.startswith(UNCLEAN):
        _warn(f"the dry run is {dry.verdict.reason}", "if the pipeline does so by itself, say it in its declaration: expects = "
              f"{json.dumps([name for name in EXPECTABLE if getattr(dry.judgement.account, name)])}", saved)  # fmt: skip
        raise typer.Exit(ExitCode.VOID)
    if dry.verdict.kind in {Kind.VOID, Kind.STUCK}:
        _warn(f"the dry run without a fault proves nothing: {dry.verdict.reason}", *last_words(dry), saved)
        raise typer.Exit(ExitCode.VOID)
    if dry.verdict.kind is Kind.BROKEN:
        _warn(f"broken without a fault: {dry.verdict.reason}", *(f"  {line}" for line in advice(dry)), saved)
        return ExitCode.BROKEN
    return ExitCode.KEPT


@app.command()
def fetch(
    systems: Annotated[
        list[str] | None, typer.Argument(help="Systems, e.g. kafka spark; the default ones, where none is named.")
    ] = None,
) -> None:
    """Fetch what systems need, ahead of a run: jars checked by sha256, class-data archives, servers."""
    for name in systems or registry.DEFAULT_SYSTEMS:
        registry.systems("process", name)
    with make_progress(sys.stdout) as progress:
        for name in systems or registry.DEFAULT_SYSTEMS:
            registry.system(name).prepare(progress.say)


@app.command("list")
def list_cells(*, only: Only = None, semantic: Semantics = None, client: Clients = None, as_json: AsJson = False) -> None:
    """Show every cell with what theory predicts, and those that do not apply with their reason."""
    cells = choose(registry.scenarios(), only=only or (), semantics=semantic or (), clients=client or ())
    if as_json:
        typer.echo(json.dumps([_listed(cell) for cell in cells], indent=1))
        return
    width = max(len(cell.id) for cell in cells)
    for cell in cells:
        typer.echo(f"{cell.id:<{width}}  {_predicted(cell)}")


@app.command(epilog=EPILOG)
def regressions(
    *,
    only: Annotated[list[str] | None, typer.Option(help="Only this bug. May be repeated.")] = None,
    seed: Annotated[int, typer.Option(help="The seed.", min=0)] = 1,
    seeds: Annotated[int, typer.Option(help="How many seeds, counting from --seed.", min=1, max=MOST_SEEDS)] = 1,
    jobs: Annotated[int, typer.Option(help="How many cells share a broker at once.", min=1, max=64)] = 3,
    reports: Reports = Path("reports"),
) -> None:
    """Try the corpus of published bugs: versions that have one are convicted, versions that have not are acquitted."""
    from harness.corpus import cells_of, disagreements, rulings  # noqa: PLC0415 - nobody else needs it
    from harness.scenarios.regressions import CORPUS  # noqa: PLC0415

    names = [registry.known(name, [bug.id for bug in CORPUS], "published bug") for name in only or ()]
    bugs = [bug for bug in CORPUS if not names or bug.id in names]
    numbers = range(seed, seed + seeds)
    cells = cells_of(bugs, numbers)
    plan = RunPlan(
        systems=systems_of(cells), cells=cells, not_applicable=(), reports=reports, jobs=jobs,
        command=shlex.join(["lostack", *sys.argv[1:]]), seeds=tuple(numbers), records=DEFAULT_RECORDS,
    )  # fmt: skip
    with make_progress(sys.stdout) as progress:
        saved = run_cells(plan, progress)
    write_reports(saved)
    told = list(rulings(bugs, saved.results))
    typer.echo()
    for ruling in told:
        typer.echo(visible(ruling.text()))
    _warn(append_history(saved, disagreements(bugs, saved.results)))
    if saved.info.interrupted:
        raise typer.Exit(ExitCode.INTERRUPTED)
    raise typer.Exit(ExitCode.KEPT if all(each.agreed == each.runs > 0 for each in told) else ExitCode.BROKEN)


@app.command(epilog=EPILOG)
def judge(directory: Directory, *, baseline: Baseline = None, as_json: AsJson = False) -> None:
    """Judge a saved run again, from its histories alone, and rewrite its reports."""
    known = read_baseline(baseline or registry.baseline())
    saved = load_run(run_directory(directory))
    _finish(saved, as_json=as_json)
    breaks = breaks_of(saved, known)
    if breaks.sentence:
        _complain(breaks.sentence)
    raise typer.Exit(exit_code(saved, breaks))


@app.command()
def report(
    directory: Directory = Path("reports/latest"),
    *,
    form: Annotated[str | None, typer.Option("--format", help=f"Print one of: {', '.join(RENDERERS)}.")] = None,
    record: Annotated[
        str | None, typer.Option(help="Print the path of this record, hop by hop, in each cell that has it.")
    ] = None,
    only: Only = None,
    compare: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="A B", help="Show two saved runs side by side; of two runtimes, exit 1 where a verdict differs."),
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--publish", metavar="DIR", help="Write its matrix, numbers and page there, to be committed.")
    ] = None,
) -> None:
    """Render the reports of a saved run, print one, follow a record (in the cells of --only), or compare two runs."""
    if compare is not None:
        _compare(*compare)
        return
    saved = load_run(run_directory(directory))
    if to is not None:
        for file in publish(saved, to):
            typer.echo(f"{file}  {file.stat().st_size:,} bytes")
    elif record is not None:
        meant = [one for one in saved.results if not only or any(matches(one.plan.id, pattern) for pattern in only)]
        typer.echo(record_text(meant, record))
    elif form is None:
        for file in write_reports(saved):
            typer.echo(file)
    else:
        typer.echo(RENDERERS[registry.known(form, RENDERERS, "format")].render(saved))


@app.command()
def clients(
    directories: Annotated[list[Path], typer.Argument(help="Saved runs, e.g. one per client.")],
) -> None:
    """Show which client, at which version, keeps which promise: how many cells came out how, and where clients differ."""
    typer.echo(client_table([load_run(run_directory(directory)) for directory in directories]), nl=False)


def _compare(before: Path, after: Path) -> None:
    """Print what changed between two runs, and write it as a page beside the second one's report.

    Where they are of two runtimes, exit with 1 if a verdict is not the same in both.
    """
    comparison = compare_runs(*(load_run(run_directory(named)) for named in (before, after)))
    typer.echo(as_text(comparison))
    typer.echo(f"page: {os.path.relpath(write_comparison(comparison))}")
    if comparison.red:
        raise typer.Exit(ExitCode.BROKEN)


@app.command()
def account(
    directories: Annotated[list[Path], typer.Argument(help="Saved runs, or folders that hold many of them.")],
    *,
    master: Annotated[str, typer.Option(help="Spark's master, e.g. local[4] or spark://host:7077.")] = "local[*]",
    as_json: AsJson = False,
) -> None:
    """Account for every cell of many saved runs again, on Spark: one line per cell, by the rules of a single run."""
    from harness.audit.accounts import cells_on_spark  # noqa: PLC0415 - PySpark takes half a second to import
    from harness.audit.session import spark_session  # noqa: PLC0415

    for directory in directories:
        if not any(directory.rglob("history/*.jsonl")):
            raise HistoryError(f"no history in {directory}")
    with spark_session(master=master, say=_complain) as spark:
        rows = [row.asDict() for row in cells_on_spark(spark, directories).orderBy("cell").toLocalIterator()]
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in row.items() if name != "cell" and count)
        typer.echo(visible(f"{os.path.relpath(row['cell'])}  {counts or 'nothing'}"))


@app.command(epilog=EPILOG)
def audit(
    *,
    offered: Annotated[str, typer.Option(help="SPEC of what was offered.")],
    arrived: Annotated[str, typer.Option(help="SPEC of what arrived.")],
    semantic: Annotated[str | None, typer.Option(help="Judge by the promise of this semantic.")] = None,
    engine: Annotated[str, typer.Option(help="auto, here (ranges and Parquet, in this process) or spark.")] = "auto",
    master: Annotated[str | None, typer.Option(help="Spark's master, e.g. local[4] or spark://host:7077.")] = None,
    jars: Annotated[list[Path] | None, typer.Option(help="A JDBC driver of yours. May be repeated.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare what was offered with what arrived, for data beyond any one history.

    SPEC: range:1-1000000 or range:a=1-500,b=1-300; kafka:HOST:PORT/TOPIC#id=json:$.seq; parquet:PATH#id=COLUMN&key=COLUMN;
    jdbc:URL#table=TABLE&id=COLUMN. An id is a whole number, zeros in front aside. Rows that cannot be read as one make the
    verdict void, but for a stated few: unreadable=3. Everything behind # is described in harness/audit/spec.py.
    """
    from harness.audit import auditing, findings  # noqa: PLC0415 - pyarrow and perhaps PySpark; nobody else needs them
    from harness.audit.spec import shown  # noqa: PLC0415

    judged = None if semantic is None else Semantic(registry.known(semantic, list(Semantic), "semantic"))
    found = auditing.audit(offered, arrived, engine=engine, master=master, jars=jars or (), say=_complain)
    if as_json:
        verdict = None if judged is None else findings.rule(found, judged)
        told = None if verdict is None else {"semantic": judged, "kind": verdict.kind, "reason": verdict.reason}
        sides = {"offered": shown(offered), "arrived": shown(arrived)}
        typer.echo(json.dumps({"sides": sides, **findings.as_json(found), "verdict": told}, indent=1))
    else:
        for line in findings.as_text(found, judged).splitlines():
            typer.echo(visible(line))
    if judged is not None:
        kinds = {Kind.KEPT: ExitCode.KEPT, Kind.BROKEN: ExitCode.BROKEN}
        raise typer.Exit(kinds.get(findings.rule(found, judged).kind, ExitCode.VOID))


@app.command()
def images() -> None:
    """Pull the container images that --runtime docker needs, or build stand-ins where they cannot be pulled."""
    from harness.runtimes.docker.engine import connect  # noqa: PLC0415 - the engine's client; nobody else needs it
    from harness.setup.images import NAMES, ensure_image  # noqa: PLC0415

    client = connect()
    for name in NAMES:
        typer.echo(f"{name:<10} {ensure_image(client, name, _complain)}")


@app.command()
def doctor(*, as_json: AsJson = False) -> None:
    """Say what is there, what is missing, and how to get it."""
    from harness.doctor import diagnose  # noqa: PLC0415 - looks at everything; nobody else needs it

    findings = diagnose()
    if as_json:
        rows = [{"name": f.name, "ok": f.ok, "detail": f.detail, "remedy": f.remedy} for f in findings]
        typer.echo(json.dumps(rows, indent=1))
    else:
        for finding in findings:
            typer.echo(f"{'ok     ' if finding.ok else 'MISSING'} {finding.name:<22} {finding.detail}")
            if not finding.ok and finding.remedy:
                typer.echo(f"        {'':<22} → {finding.remedy}")
    if not all(finding.ok for finding in findings):
        raise typer.Exit(ExitCode.ENVIRONMENT)


def _finish(saved: SavedRun, *, as_json: bool) -> ExitCode:
    """Say what came out, write the reports, and return the exit code."""
    summary = summarise(saved)
    if as_json:
        typer.echo(RENDERERS["json"].render(saved), nl=False)
    else:
        for result in saved.results:
            if not result.verdict.green:
                _tell_red(result)
        typer.echo(f"\n{summary.sentence}")
        for sentence in saved.info.untried:
            typer.echo(sentence)
    files = write_reports(saved)
    if not as_json:
        typer.echo(f"reports: {', '.join(os.path.relpath(file) for file in files)}")
    return summary.exit_code


def _warn(*texts: str | None) -> None:
    for text in texts:
        if text:
            _complain(text)


def _tell_red(result: CellResult) -> None:
    typer.echo(f"\n{result.verdict.label.upper()}  {visible(result.plan.id)}\n  {visible(result.verdict.reason)}")
    typer.echo(f"  {visible(result.plan.because)}")
    typer.echo(f"  again: {visible(rerun_line(result.plan))}")
    typer.echo(f"  saved: {os.path.relpath(result.directory)}")


def _listed(cell: Cell) -> dict[str, Any]:
    """Return a cell as ``list --json`` shows it; what does not apply has no prediction."""
    expectation = cell.expectation
    row = {
        "id": cell.id, "scenario": cell.scenario.id, "failure_point": cell.scenario.failure_point,
        "pipeline": str(cell.scenario.pipeline), "semantic": str(cell.semantic), "because": cell.scenario.because,
        "lost": None, "duplicated": None, "sign": None, "control": False, "refused_by_client": None,
        "not_applicable": None,
    }  # fmt: skip
    match expectation:
        case Predicted():
            sign = str(expectation.sign) if expectation.sign else None
            return row | {"lost": expectation.lost.text(), "duplicated": expectation.duplicated.text(), "sign": sign,
                          "control": expectation.control}  # fmt: skip
        case RefusedByClient():
            return row | {"refused_by_client": expectation.because}
        case NotApplicable():
            return row | {"not_applicable": expectation.because}


def _predicted(cell: Cell) -> str:
    expectation = cell.expectation
    match expectation:
        case Predicted():
            control = "  (control: must be convicted)" if expectation.control else ""
            left = f", left {expectation.left.text()}" if expectation.left.must_show() else ""
            return f"lost {expectation.lost.text()}, duplicated {expectation.duplicated.text()}{left}{control}"
        case RefusedByClient():
            return f"refused by the client: {expectation.because}"
        case NotApplicable():
            return f"n/a: {expectation.because}"


def _version() -> str:
    try:
        return version("lostack")
    except PackageNotFoundError:
        return "(not installed: run from its source)"


def _complain(text: str) -> None:
    typer.echo(f"lostack: {visible(text)}", err=True)


_BAD_OPTION = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
"""The base of every complaint about an option; typer brings its own copy of it or another package's, by version."""
_USER_ERRORS: tuple[tuple[type[Exception], ExitCode], ...] = (
    (UsageError, ExitCode.USAGE),
    (BaselineError, ExitCode.USAGE),
    (RepeatedIdError, ExitCode.VOID),
    (DeclarationError, ExitCode.USAGE),
    (UnknownNameError, ExitCode.USAGE),
    (SavedRunError, ExitCode.USAGE),
    (NoRecordError, ExitCode.USAGE),
    (HistoryError, ExitCode.ENVIRONMENT),
    (EnvironmentFailure, ExitCode.ENVIRONMENT),
    (ReportError, ExitCode.ENVIRONMENT),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: one clear line for a user's mistake, no traceback."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that has no ✔ is no reason to fail
    before = signal.signal(signal.SIGTERM, _terminated)
    try:
        return _guarded(lambda: app(args=arguments, standalone_mode=False))
    finally:
        signal.signal(signal.SIGTERM, before)


def _guarded(act: Callable[[], Any]) -> int:
    try:
        return int(act() or ExitCode.KEPT)
    except (KeyboardInterrupt, typer.Abort):
        _complain("interrupted")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:  # whoever read our output has had enough
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - for the interpreter's last flush
        return BROKEN_PIPE
    except Exception as error:
        code = _exit_code(error)
        if code is None:
            raise
        _complain(_one_line(error))
        return code


def _exit_code(error: Exception) -> ExitCode | None:
    """Return the exit code of a user's mistake; ``None`` for ours."""
    if isinstance(error, _BAD_OPTION):
        return ExitCode.USAGE
    if isinstance(error, OSError) and error.filename is not None:
        return ExitCode.ENVIRONMENT
    return next((code for kind, code in _USER_ERRORS if isinstance(error, kind)), None)


def _one_line(error: Exception) -> str:
    if isinstance(error, _BAD_OPTION):
        return f"{error.format_message()} (lostack --help)"  # type: ignore[attr-defined]
    if isinstance(error, OSError) and error.filename is not None:
        return f"cannot use {error.filename}: {error.strerror}"
    return str(error)


def _terminated(*_: object) -> None:
    """Treat SIGTERM as Ctrl-C: cells end, and the report says that it is partial."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
