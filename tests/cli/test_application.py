"""The command line imports for a command what it needs, and knows its errors by name."""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from harness.cli.application import (
    _ENDS_WITH,
    COMMANDS,
    EPILOG,
    _exit_code,
    application,
    main,
)
from harness.model.exits import ExitCode
from harness.model.failures import EnvironmentFailure
from tests.memory import python_path

if TYPE_CHECKING:
    from pathlib import Path

NOT_FOR_AN_AUDIT = (
    "harness.registry",
    "harness.report.renderers",
    "harness.saved",
    "harness.matrix",
    "harness.wire",
    "jinja2",
    "pandas",
    "pyspark",
    "psutil",
    "yaml",
    "rich",
    "kafka",
)


@pytest.mark.parametrize("path", _ENDS_WITH)
def test_every_error_that_is_known_by_name_is_one(path: str) -> None:
    """An error that is renamed or moved would be a traceback."""
    module, _, name = path.rpartition(".")
    kind = getattr(importlib.import_module(module), name)
    assert issubclass(kind, Exception)
    assert (kind.__module__, kind.__qualname__) == (module, name), (
        "where it is made, and not where it is imported"
    )


def test_an_error_below_a_known_one_ends_with_its_code() -> None:
    """A subclass is known by what it derives from; another error is ours."""

    class FurtherFailure(EnvironmentFailure):
        pass

    assert _exit_code(FurtherFailure("x")) is ExitCode.ENVIRONMENT
    assert _exit_code(ValueError("x")) is None


def test_a_command_is_made_alone_or_among_all() -> None:
    """Each brings its help's last line; alone it has no others beside it."""
    whole = {command.name: command for command in application().registered_commands}
    assert list(whole) == list(COMMANDS)
    assert whole["run"].epilog == EPILOG
    assert [command.name for command in application("audit").registered_commands] == ["audit"]


@pytest.mark.parametrize("name", [None, *COMMANDS])
def test_help_has_a_short_name(name: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    words = [] if name is None else [name]
    assert main([*words, "-h"]) == 0
    short = capsys.readouterr().out
    assert main([*words, "--help"]) == 0
    assert short == capsys.readouterr().out
    assert "Usage: lostack" in short


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("vendor X", "Invalid value for 'what': 'X' is not one of 'failpoint'."),
        ("vendor X file", "Invalid value for 'what': 'X' is not one of 'failpoint'."),
        ("vendor", "lostack: Missing argument 'what'. Choose from: failpoint (lostack --help)"),
        ("check x.toml --pairs X", "'--pairs': 'X' is not one of 'none', 'few', 'all'."),
        ("run --keep X", "'--keep': 'X' is none of all, broken, none"),
    ],
)
def test_a_wrong_choice_is_told_in_our_words(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line: what is wrong, and what there is; nothing of the library that reads options."""
    assert main(words.split()) == ExitCode.USAGE
    [line] = capsys.readouterr().err.splitlines()
    assert said in line
    assert "Value error" not in line


@pytest.mark.parametrize(
    ("line", "at", "offered"),
    [("lostack re", 1, {"report", "regressions"}), ("lostack judge --b", 2, {"--baseline"})],
)
def test_a_shell_completes(
    line: str,
    at: int,
    offered: set[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("_LOSTACK_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(at))
    assert main([]) == 0
    assert set(capsys.readouterr().out.split()) == offered


@pytest.mark.parametrize(
    ("arguments", "code", "absent"),
    [
        (
            ["audit", "--offered", "range:1-3", "--arrived", "parquet:/there/is/none#id=x"],
            3,
            NOT_FOR_AN_AUDIT,
        ),
        (
            ["audit", "--offered", "range:1-3", "--arrived", "kafka:127.0.0.1:1/none#id=key"],
            3,
            NOT_FOR_AN_AUDIT,
        ),
        (["judge", "/there/is/no/run"], 2, ("harness.sweep", "harness.audit")),
    ],
    ids=["parquet", "topic", "judge"],
)
def test_a_command_imports_nothing_for_others(
    arguments: list[str], code: int, absent: tuple[str, ...]
) -> None:
    """A process that ends with a user's mistake has not imported what other commands need."""
    program = (
        "import sys\nfrom harness.cli import main\n"
        f"code = main({arguments!r})\n"
        f"print(code, *[name for name in {absent!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split() == [str(code)], done.stderr


def test_a_run_is_judged_and_reported_without_pandas(tmp_path: Path) -> None:
    """It takes half a second to import, which each run of one cell would wait for at its end."""
    run = ["run", "--system", "memory", "--only", "ack-lost", "--reports", str(tmp_path)]
    program = (
        f"import sys\nfrom harness.cli import main\ncode = main({run!r})\nprint(code, 'pandas' "
        "in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env=python_path(),
    )
    assert done.stdout.splitlines()[-1] == "0 False", done.stdout + done.stderr


def test_check_without_a_file_takes_the_one_that_init_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If it is not there, the message says how to come by one; else what is in it counts."""
    monkeypatch.chdir(tmp_path)
    assert main(["check"]) == 2
    assert "there is no pipeline.toml in this folder: lostack init" in capsys.readouterr().err
    (tmp_path / "pipeline.toml").write_text('claims = "at-least-once"\n', encoding="utf-8")
    assert main(["check"]) == 2
    assert "pipeline.toml: topics is missing" in capsys.readouterr().err
