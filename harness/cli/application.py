"""The command line: its commands in the order of its help, and what each error ends with."""

from __future__ import annotations

import os
import signal
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.check import check
from harness.cli.counting import account, audit
from harness.cli.init import init
from harness.cli.listing import list_cells
from harness.cli.machine import doctor, fetch, images
from harness.cli.points import points
from harness.cli.regressions import regressions
from harness.cli.run import run
from harness.cli.saved import clients, events, judge, report, trend
from harness.cli.soak import soak
from harness.cli.sweep import export, sweep
from harness.cli.telling import complain
from harness.model.failures import EnvironmentFailure, UsageError
from harness.model.history import HistoryError
from harness.pipelines.declaration import RepeatedIdError
from harness.pipelines.refusing import DeclarationError
from harness.registry import UnknownNameError
from harness.report import ReportError
from harness.report.breaks import BaselineError
from harness.report.record import NoRecordError
from harness.report.summary import ExitCode
from harness.report.trend import TrendError
from harness.saved import SavedRunError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


BROKEN_PIPE = 141
"""What a shell shows for a program that died of SIGPIPE: never a success, for nobody has read the verdicts."""
_LACKING = "2 wrong use; 3 the machine lacks something"
_PARTLY = f"{_LACKING}; 4 a cell void or stuck, or not everything planned was run; 130 Ctrl-C."
EPILOG = (
    "Exit codes: 0 every promise kept and every control convicted (but for the known breaks of --baseline); "
    f"1 a promise broken, or a control not convicted; {_PARTLY}"
)
"""Of commands that have ``--baseline``, and of lostack itself."""
_FAULTS = f"Exit codes: 0 the promise kept at every fault; 1 it was broken; {_PARTLY}"
_BUGS = f"Exit codes: 0 every bad version convicted, every good one acquitted; 1 one was not; {_LACKING}; 130 Ctrl-C."
_SIDES = (
    f"Exit codes: 0 the promise of --semantic kept, or none named; 1 it is broken; {_LACKING}, or a side cannot be reached; "
    "4 it proves nothing: rows cannot be read, or not all could be looked at; 130 Ctrl-C."
)
app = typer.Typer(
    name="lostack", add_completion=False, pretty_exceptions_enable=False, epilog=EPILOG,
    help="Crashes real messaging systems at exact points and counts what was lost and what was duplicated.",
)  # fmt: skip


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


for named, command, epilog in (
    ("run", run, EPILOG), ("init", init, None),
    ("check", check, EPILOG), ("sweep", sweep, _FAULTS), ("soak", soak, _FAULTS),
    ("export", export, None), ("fetch", fetch, None),
    ("list", list_cells, None), ("points", points, None),
    ("regressions", regressions, _BUGS), ("judge", judge, EPILOG), ("report", report, None),
    ("events", events, None), ("trend", trend, None), ("clients", clients, None),
    ("account", account, None), ("audit", audit, _SIDES), ("images", images, None), ("doctor", doctor, None),
):  # fmt: skip
    app.command(named, epilog=epilog)(command)


def _version() -> str:
    try:
        return version("lostack")
    except PackageNotFoundError:
        return "(not installed: run from its source)"


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
    (TrendError, ExitCode.USAGE),
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
        complain("interrupted")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:  # whoever read our output has had enough
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - for the interpreter's last flush
        return BROKEN_PIPE
    except Exception as error:
        code = _exit_code(error)
        if code is None:
            raise
        complain(_one_line(error))
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
