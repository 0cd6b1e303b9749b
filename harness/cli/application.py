"""The command line: its commands in the order of the help, and the exit code of each error."""

from __future__ import annotations

import errno
import functools
import importlib
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, NamedTuple, ParamSpec, TypeVar

import typer

from harness.cli.signals import interruptible
from harness.cli.streams import ReaderGoneError, guarded
from harness.cli.telling import complain, complain_text, tell, tell_text
from harness.model.code import lostack_version
from harness.model.exits import ExitCode
from harness.model.extras import why_missing
from harness.model.failures import traced
from harness.provision.account import give_account

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

P = ParamSpec("P")
T = TypeVar("T")

BROKEN_PIPE = 141
"""The exit code of a program that died of SIGPIPE. It is no success: nobody has read
the verdicts.
"""
_PREFIX = "Value error, "
"""What pydantic, with which typer reads values, puts before the message of a wrong choice."""
_SHORT_OF = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.EROFS}
)
"""Errors that say what the machine is short of, and name no file."""
_LACKING = "2 wrong use; 3 the machine lacks something"
_ELSE = "70 a defect of lostack; 130 Ctrl-C."
_PARTLY = f"{_LACKING}; 4 a cell void or stuck, or not everything planned was run; {_ELSE}"
EPILOG = (
    "Exit codes: 0 every promise kept and every control convicted (but for the known breaks of "
    f"--baseline); 1 a promise broken, or a control not convicted; {_PARTLY}"
)
"""Of commands that have ``--baseline``, and of lostack itself."""
_FAULTS = f"Exit codes: 0 the promise kept at every fault; 1 it was broken; {_PARTLY}"
_BUGS = (
    "Exit codes: 0 every bad version convicted, every good one acquitted; 1 one was not; "
    f"{_LACKING}; {_ELSE}"
)
_BOARD = (
    f"Exit codes: 0 every row of the board is there; {_LACKING}; 4 the board is partial; {_ELSE}"
)
_SIDES = (
    f"Exit codes: 0 the promise of --semantic kept, or none named; 1 it is broken; {_LACKING}, "
    "or a side cannot be reached; 4 it proves nothing: rows cannot be read, or not all could be "
    f"looked at; {_ELSE}"
)
_DEMO = (
    "Exit codes: 0 a record was lost by the wrong consumer, and none by the right one; 1 it was "
    f"not so; {_LACKING}; 4 a run proved nothing; {_ELSE}"
)
_PROXY = (
    "Exit codes: 0 every fault struck; 1 one never did, or something could not be read; "
    f"{_LACKING}; {_ELSE}"
)


class Command(NamedTuple):
    """The module and function of a command, and the last paragraph of its help."""

    module: str
    function: str
    epilog: str | None = None


COMMANDS = {
    "demo": Command("demo", "demo", _DEMO),
    "run": Command("run", "run", EPILOG),
    "init": Command("init", "init"),
    "check": Command("check", "check", EPILOG),
    "sweep": Command("sweep", "sweep", _FAULTS),
    "soak": Command("soak", "soak", _FAULTS),
    "export": Command("sweep", "export"),
    "proxy": Command("proxy", "proxy", _PROXY),
    "fetch": Command("machine", "fetch"),
    "list": Command("listing", "list_cells"),
    "points": Command("points", "points"),
    "scoreboard": Command("scoreboard", "scoreboard", _BOARD),
    "regressions": Command("regressions", "regressions", _BUGS),
    "judge": Command("saved", "judge", EPILOG),
    "report": Command("saved", "report"),
    "events": Command("saved", "events"),
    "trend": Command("saved", "trend"),
    "clients": Command("saved", "clients"),
    "account": Command("counting", "account"),
    "audit": Command("counting", "audit", _SIDES),
    "images": Command("machine", "images"),
    "doctor": Command("machine", "doctor"),
    "vendor": Command("machine", "vendor"),
}
"""The commands in the order of the help. Modules lie in this package; each is imported when its
command is asked for.
"""
_ENDS_WITH = {
    "harness.model.failures.UsageError": ExitCode.USAGE,
    "harness.report.breaks.BaselineError": ExitCode.USAGE,
    "harness.pipelines.declaration.RepeatedIdError": ExitCode.VOID,
    "harness.pipelines.refusing.DeclarationError": ExitCode.USAGE,
    "harness.registry.UnknownNameError": ExitCode.USAGE,
    "harness.saved.SavedRunError": ExitCode.USAGE,
    "harness.report.record.NoRecordError": ExitCode.USAGE,
    "harness.model.writing.HistoryError": ExitCode.ENVIRONMENT,
    "harness.model.failures.EnvironmentFailure": ExitCode.ENVIRONMENT,
    "harness.report.writing.ReportError": ExitCode.ENVIRONMENT,
    "harness.report.trend.TrendError": ExitCode.USAGE,
}
"""The exit code of each error, by its class's name, so that a command need not import the errors of
the others.
"""


def application(only: str | None = None) -> typer.Typer:
    """Return the command line with all commands, or with only one, so that the others' modules are
    not imported.
    """
    app = typer.Typer(
        name="lostack",
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
        epilog=EPILOG,
        help=(
            "Crashes real messaging systems at exact points and counts what was lost and what "
            "was duplicated."
        ),
    )
    app.callback(invoke_without_command=True)(_options)
    for name, command in COMMANDS.items():
        if only in {None, name}:
            module = importlib.import_module(f"harness.cli.{command.module}")
            function = _interruptible(getattr(module, command.function))
            app.command(name, epilog=command.epilog)(function)
    return app


class _InterruptedError(Exception):
    """A command was interrupted, and has not told it itself. typer would make an exit code of a
    KeyboardInterrupt, without a word.
    """


def _interruptible(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function of a command; its interrupts come through typer."""

    @functools.wraps(function)
    def run(*args: P.args, **named: P.kwargs) -> T:
        try:
            return function(*args, **named)
        except KeyboardInterrupt as error:
            raise _InterruptedError from error

    return run


def _options(
    context: typer.Context,
    *,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if show_version:
        tell(f"lostack {lostack_version() or '(not installed: run from its source)'}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        tell_text(context.get_help())
        raise typer.Exit(ExitCode.USAGE)


_BAD_OPTION = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
"""The base class of all errors about options. Depending on its version, typer has its own copy of
it or imports it.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code. A user's mistake is told in one line, without
    a traceback.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    with interruptible(), guarded(), _threads_heard() as failed:
        code = _code_of(lambda: _run(words))
        return failed[0] if failed and code != ExitCode.INTERRUPTED else code


def _run(words: list[str]) -> int | None:
    give_account()
    app = application(_asked_for(words))
    code: int | None = app(args=words, prog_name="lostack", standalone_mode=False)
    return code


def _asked_for(words: Sequence[str]) -> str | None:
    """Return the command that is asked for; ``None`` where it is not the first word, or there is no
    such command.
    """
    return words[0] if words and words[0] in COMMANDS else None


def _code_of(act: Callable[[], int | None]) -> int:
    """Run a command and return its exit code. If it raises, say why in one line."""
    try:
        return int(act() or ExitCode.KEPT)
    except (KeyboardInterrupt, _InterruptedError, typer.Abort) as error:
        # typer takes every end of a file for that of standard input
        if isinstance(error.__cause__, EOFError):
            return _told(error.__cause__)
        complain("interrupted")
        return ExitCode.INTERRUPTED
    except SystemExit as error:
        return _told(error) if error.code else ExitCode.KEPT  # the shells' completion ends so
    except Exception as error:  # noqa: BLE001 - whatever it is, its exit code must not be that of a broken promise
        return _told(error)


@contextmanager
def _threads_heard() -> Iterator[list[int]]:
    """Yield a list that gets the exit code of each error that ends a thread: Python would only
    print it.
    """
    failed: list[int] = []

    def heard(what: threading.ExceptHookArgs) -> None:
        if what.exc_value is not None and not isinstance(what.exc_value, SystemExit):
            failed.append(_told(what.exc_value))

    before, threading.excepthook = threading.excepthook, heard
    try:
        yield failed
    finally:
        threading.excepthook = before


def _told(error: BaseException) -> int:
    """Say why a command ends, and return its exit code. A defect of lostack has a traceback, and a
    line behind it.
    """
    if isinstance(error, ReaderGoneError):  # the reader of the output has closed it, as `head` does
        return BROKEN_PIPE
    code = _exit_code(error)
    if code is None:
        complain_text(traced(error))
        return ExitCode.DEFECT
    complain(_one_line(error))
    return code


def _exit_code(error: BaseException) -> ExitCode | None:
    """Return the exit code of a user's mistake; ``None`` for a defect of lostack."""
    if isinstance(error, _BAD_OPTION):
        return ExitCode.USAGE
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and _of_the_machine(error)):
        return ExitCode.ENVIRONMENT
    if why_missing(error):
        return ExitCode.ENVIRONMENT
    names = [f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__]
    return next((code for name, code in _ENDS_WITH.items() if name in names), None)


def _of_the_machine(error: OSError) -> bool:
    """Whether a file, or the machine, is at fault. Errors of pipes and connections name no file."""
    return error.filename is not None or error.errno in _SHORT_OF


def _one_line(error: BaseException) -> str:
    if isinstance(error, _BAD_OPTION):
        said: str = error.format_message()  # type: ignore[attr-defined]
        words = " ".join(said.replace(_PREFIX, "").split())
        return f"{words} (lostack --help)"
    if isinstance(error, MemoryError):
        return "the machine is out of memory: run fewer cells at once, with --jobs 1, or free some"
    if isinstance(error, OSError):
        return f"cannot use {error.filename or 'this machine'}: {error.strerror}"
    return why_missing(error) or str(error)
