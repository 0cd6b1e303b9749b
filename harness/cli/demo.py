"""``lostack demo``: a wrong consumer that looks right, and the record that it loses."""

from __future__ import annotations

import os
import shlex
import time
from importlib.resources import files
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.narrating import Narrator
from harness.cli.telling import complain, tell, warn
from harness.judge.verdict import Kind
from harness.model import safe_files
from harness.model.exits import ExitCode
from harness.model.failures import UsageError
from harness.model.scenario import NotApplicable
from harness.report.advising import last_line_sentences
from harness.report.page.detail import broken_rows, history_of
from harness.report.page.paths import Paths
from harness.report.page.usual import MARKED
from harness.report.renderers import write_reports
from harness.report.summary import SIGNS, counted, outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.matrix.checking import Check
    from harness.pipelines.traffic import StageTraffic
    from harness.saved import CellResult, SavedRun

POINT = "commit-ack-lost"
"""The failure point of the demo: the consumer is killed when the broker has saved its position."""
PROGRAMS = ("producer.py", "consumer.py", "right.py", "pipeline.toml", "right.toml")
HEADINGS = (
    "1  Nothing fails.",
    "2  The consumer is killed at the moment at which Kafka has saved its position.",
    "3  The same for right.py, which saves its position when the orders are booked.",
)
"""What is said before each of the three cells."""
COLUMNS = 96
"""How long a line of the demo may be."""
LOOP = "for message in consumer:"
"""The first of the two lines of the consumer that are shown."""


def demo(
    folder: Annotated[
        Path, typer.Argument(help="The folder for the programs and the report.")
    ] = Path("lostack-demo"),
    *,
    quiet: Annotated[bool, typer.Option(help="Print only the verdicts.")] = False,
) -> None:
    """Show a lost record: a consumer that looks right, killed on a real Kafka at one exact moment,
    and its right twin.

    The programs are copied into a folder, and stay there. Files that are there already are kept.
    """
    from harness.matrix.checking import Check  # noqa: PLC0415 - brings a system
    from harness.matrix.seen import seen_in  # noqa: PLC0415 - brings a system
    from harness.pipelines import read_pipeline  # noqa: PLC0415
    from harness.systems.declared.fetchable import check_declared  # noqa: PLC0415
    from harness.systems.declared.system import DeclaredSystem  # noqa: PLC0415

    copy_programs(folder)
    began = time.monotonic()
    wrong, right = (read_pipeline(folder / name) for name in ("pipeline.toml", "right.toml"))
    check_declared(wrong)
    system = DeclaredSystem(keep=True)
    command = "lostack demo"
    tells = Narrator(quiet=quiet)
    tells.lines(introduction(folder))
    try:
        # apart, so that ``latest`` names the run with the lost record
        checks = [
            Check(wrong, system, folder / "reports", command),
            Check(right, system, folder / "reports-of-right", command),
        ]
        tells.lines(HEADINGS[:1])
        dry = checks[0].dry_run(tells, brief=True)
        tells.lines(ended(dry))
        if dry.verdict.kind is not Kind.KEPT:
            warn(
                *last_line_sentences(dry),
                f"saved with its logs in {os.path.relpath(dry.directory)}",
            )
            raise typer.Exit(_exit_code(dry))
        seen = seen_in(dry)
        tells.lines(HEADINGS[1:2])
        lost = _struck(checks[0], seen, tells)
        tells.lines(ended(lost.results[0]))
        tells.lines(HEADINGS[2:])
        safe = _struck(checks[1], seen, tells)
        tells.lines(ended(safe.results[0]))
    except KeyboardInterrupt:
        complain(f"interrupted; the programs are in {folder}")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    finally:
        tells.close()
        system.close()
    page = next(file for file in write_reports(lost) if file.suffix == ".html")
    write_reports(safe)
    results = dry, lost.results[0], safe.results[0]
    for result in results if quiet else ():
        tell(f"{_verdict(result)}  {result.plan.pipeline}: {result.verdict.reason}")
    tells.lines(ending(folder, page, time.monotonic() - began))
    code = _exit_code(*results)
    if code is not ExitCode.KEPT:
        complain(
            "this was not what the demo shows: kept without a fault, broken by it, and kept by "
            "right.py"
        )
    raise typer.Exit(code)


def copy_programs(folder: Path) -> None:
    """Copy the demo's programs into a folder; files that are there already stay as they are.

    Raises:
        UsageError: the folder, or a file in it, cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in PROGRAMS:
            if not (folder / name).exists():
                program = files("harness").joinpath("demo", name).read_bytes()
                safe_files.write_whole(folder, name, program)
    except OSError as error:
        raise UsageError(
            f"cannot write the demo's programs into {folder}: {error.strerror}; name another "
            "folder: lostack demo FOLDER"
        ) from error


def introduction(folder: Path) -> Iterator[str]:
    """Yield what the demo is about, with the lines of the consumer that matter."""
    yield "A producer sends orders through a real Kafka to a consumer, which books each in a"
    yield "database. Booking is slow, so a thread does it while the loop reads on. It looks right"
    yield f"({folder / 'consumer.py'}):"
    yield ""
    lines = (folder / "consumer.py").read_text(encoding="utf-8").splitlines()
    start = next((at for at, line in enumerate(lines) if LOOP in line), max(0, len(lines) - 2))
    for number, line in enumerate(lines[start : start + 2], start=start + 1):
        yield f"  {number:>3}  {line}"
    yield ""


def _struck(check: Check, seen: Mapping[str, StageTraffic], tells: Narrator) -> SavedRun:
    """Run the one cell with the fault. ``seen``: what the wire saw of each stage without it."""
    cells, rest = check.plan(seen, [POINT])
    for cell in rest:
        if isinstance(cell.expectation, NotApplicable):
            raise UsageError(f"{check.pipeline.name}: {POINT}: {cell.expectation.because}")
    saved = check.faults(cells, rest, tells)
    if saved.info.interrupted or not saved.results:
        raise KeyboardInterrupt
    return saved


def ended(result: CellResult) -> Iterator[str]:
    """Yield what is told of a cell at its end: its verdict, what was counted, and what happened to
    the first record that broke the promise.
    """
    yield f"   {_verdict(result)}  {_counted(result)}"
    if result.verdict.kind not in {Kind.KEPT, Kind.BROKEN}:
        yield f"   {result.verdict.reason}"
    if (history := history_of(result)) and (rows := broken_rows(result)):
        path = Paths(history.events).of(rows[0])
        for line in f"{path.record}: {path.sentence}".split("; "):
            yield f"     {line}"
        if path.usually:
            yield from wrap(
                MARKED.format(path.usually),
                COLUMNS,
                initial_indent="   ",
                subsequent_indent="     ",
            )
    yield ""


def _counted(result: CellResult) -> str:
    """Say how many orders were booked, and which ones are lost, in the order of the source."""
    account = result.judgement.account
    rows = sorted(account.rows, key=lambda row: int(row["position"]))
    lost = [row["record"] for row in rows if row["record"] in account.lost]
    told = f"{account.counts['offered']} orders sent, {account.counts['recorded']} booked"
    if lost:
        names = f"{', '.join(lost[:3])}{', ...' if len(lost) > 3 else ''}"  # noqa: PLR2004
        told += f"; {counted(len(lost), 'order')} lost: {names}"
    return told


def _verdict(result: CellResult) -> str:
    word = outcome(result.verdict)
    return f"{SIGNS[word]} {word}"


def ending(folder: Path, page: Path, seconds: float) -> Iterator[str]:
    """Yield the last lines: how long it took, the report, and what to do next."""
    again = shlex.join(["lostack", "check", str(folder / "pipeline.toml"), "--only", POINT])
    yield f"{seconds:.0f} s. What happened, moment by moment: {os.path.relpath(page)}"
    yield f"Mend {folder / 'consumer.py'}, and try it again: {again}"
    yield "Your own programs: lostack init, then lostack check pipeline.toml"


def _exit_code(*results: CellResult) -> ExitCode:
    """Return 0 if the demo showed what it says, 4 if a run proved nothing, else 1."""
    kinds = [result.verdict.kind for result in results]
    if kinds == [Kind.KEPT, Kind.BROKEN, Kind.KEPT]:
        return ExitCode.KEPT
    return ExitCode.VOID if {Kind.VOID, Kind.STUCK} & {*kinds} else ExitCode.BROKEN
