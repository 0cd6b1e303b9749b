"""An error of lostack itself is told as one, and has an exit code of its own; likewise an output
that cannot be written.
"""

from __future__ import annotations

import errno
import io
import os
import shlex
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness import cli, registry, systems
from harness.audit.cores import Cores
from harness.cli.application import BROKEN_PIPE, COMMANDS
from harness.model.exits import ExitCode
from tests.cli import played
from tests.memory import python_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.model.scenario import Scenario

ROOT = Path(__file__).parents[2]
DECLARED = ROOT / "examples" / "orders" / "pipeline.toml"
PLANTS = {
    "demo": ("", "harness.cli.demo.introduction"),
    "run": ("--system memory --only none", "harness.cli.run.run_cells"),
    "init": (
        "new --producer ./p --topic t --output stdout --input stdin --no-ci",
        "harness.cli.init.read_pipeline",
    ),
    "check": (str(DECLARED), "harness.matrix.checking.Check.plan"),
    "sweep": ("--only plain", "harness.sweep.pipelines.swept"),
    "soak": ("plain --system memory", "harness.cli.soak.run_soak"),
    "export": ("finding.lostack.toml", "harness.sweep.exporting.export"),
    "proxy": ("--upstream localhost:1 --map a:1=b:1", "harness.cli.proxy._pair"),
    "fetch": ("memory", "tests.cli.played.PlayedSystem.prepare"),
    "list": ("--system memory", "harness.registry.inapplicable"),
    "points": ("", "harness.matrix.points.table"),
    "scoreboard": ("--page", "harness.scoreboard.page.write_page"),
    "regressions": ("", "harness.matrix.regressions.cells_of"),
    "judge": ("saved", "harness.cli.finishing.summarise"),
    "report": ("saved", "harness.cli.saved.write_reports"),
    "events": ("saved", "harness.cli.saved.event_lines"),
    "trend": (".", "harness.cli.saved.write_trend"),
    "clients": ("saved", "harness.cli.saved.client_table"),
    "account": ("saved", "harness.audit.session.spark_session"),
    "audit": (
        "--offered range:1-3 --arrived parquet:ids.parquet#id=id",
        "harness.audit.findings.as_text",
    ),
    "images": ("", "harness.runtimes.docker.engine.connect"),
    "vendor": ("failpoint copy.py", "harness.cli.machine.tell"),
    "doctor": ("", "harness.doctor.diagnose"),
}
"""For each command its arguments, and the function in which an error is planted."""
PRINTING = (
    "",
    "--version",
    "--help",
    "init --schema",
    "list --system memory",
    "points",
    "judge saved",
    "judge saved --json",
    "report saved",
    "report saved --format json",
    "report saved --format html",
    "events saved",
    "events saved --json",
    "trend .",
    "scoreboard --list",
    "clients saved",
    "audit --offered range:1-3 --arrived parquet:ids.parquet#id=id",
    "run --system memory --only none",
)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a saved run of two cells, ``saved``."""
    folder: Path = tmp_path_factory.mktemp("kept")
    with pytest.MonkeyPatch.context() as patch:
        _play(patch)
        patch.chdir(folder)
        assert (
            cli.main(
                ["run", "--system", "memory", "--only", "none/exactly-once", "--reports", "reports"]
            )
            == 0
        )
        Path("reports/latest").resolve().rename("saved")
    return folder


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kept: Path) -> None:
    """The commands see played systems, and work in a copy of that folder."""
    _play(monkeypatch)
    shutil.copytree(kept / "saved", tmp_path / "saved")
    shutil.copy(kept / "reports" / "history.jsonl", tmp_path)
    pq.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "ids.parquet")
    (tmp_path / "new").mkdir()
    monkeypatch.chdir(tmp_path)


def _play(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(systems.SYSTEMS, "memory", "tests.cli.played:PLAYED")
    patch.setattr(registry, "scenarios", _scenarios)
    patch.delenv("GITHUB_STEP_SUMMARY", raising=False)


def _scenarios() -> tuple[Scenario, ...]:
    return played.SCENARIOS


def _break(*_: object, **__: object) -> Any:
    raise KeyError("a planted\x1b[2J error")


def told(err: str) -> None:
    """The last line says whose fault it is and what to report; the traceback stands above it, and
    obeys no terminal.
    """
    *trace, line = err.splitlines()
    assert "Traceback (most recent call last):" in trace
    assert "\x1b" not in err
    assert line.startswith(
        "lostack: this is a defect of lostack (KeyError in test_defects.py, line "
    )
    assert "report the traceback above" in line


@pytest.mark.parametrize("name", COMMANDS)
def test_an_error_of_ours_is_no_broken_promise(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, where = PLANTS[name]
    monkeypatch.setattr(where, _break)
    assert cli.main([name, *shlex.split(arguments)]) == int(ExitCode.DEFECT) == 70
    told(capsys.readouterr().err)


@pytest.mark.parametrize("name", COMMANDS)
def test_an_interrupt_is_told(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    arguments, where = PLANTS[name]
    monkeypatch.setattr(where, interrupted)
    assert cli.main([name, *shlex.split(arguments)]) == int(ExitCode.INTERRUPTED) == 130
    told = [line for line in capsys.readouterr().err.splitlines() if "interrupted" in line]
    assert len(told) == 1, told
    assert told[0].startswith("lostack: ")


@pytest.mark.parametrize("where", ["PlayedSystem.deploy", "MemoryDeployed.check"])
def test_an_error_in_a_lane_of_cells(
    where: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cells run in threads; what ends one of these ends the run."""
    monkeypatch.setattr(f"tests.cli.played.{where}", _break)
    assert cli.main(["run", "--system", "memory", "--only", "none"]) == 70
    told(capsys.readouterr().err)


def test_an_error_inside_a_cell_voids_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other cells are worth something; the traceback lies in the cell's folder."""
    monkeypatch.setattr("tests.memory.system.MemoryCellRun.inject", _break)
    assert cli.main(["run", "--system", "memory", "--only", "none/exactly-once"]) == 4
    out = capsys.readouterr().out
    assert r"KeyError: 'a planted\x1b[2J error' (its traceback: traceback.txt)" in out
    [file] = Path("reports/latest/cells").glob("*/traceback.txt")
    assert "_break" in file.read_text(encoding="utf-8")


def test_an_error_in_a_thread_that_nobody_waits_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python would print it and end with 0."""

    def diagnose() -> list[Any]:
        thread = threading.Thread(target=_break)
        thread.start()
        thread.join()
        return []

    monkeypatch.setattr("harness.doctor.diagnose", diagnose)
    assert cli.main(["doctor"]) == 70
    told(capsys.readouterr().err)


def test_a_command_that_says_it_was_interrupted_is_believed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its exit code, which is a plain number, whatever a thread met with meanwhile."""

    def heard(_: list[str]) -> int:
        thread = threading.Thread(target=_break)
        thread.start()
        thread.join()
        return int(ExitCode.INTERRUPTED)

    monkeypatch.setattr("harness.cli.application._run", heard)
    assert cli.main(["doctor"]) == ExitCode.INTERRUPTED
    told(capsys.readouterr().err)


class Refusing(io.StringIO):
    """A stream that cannot be written to."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def write(self, _: str) -> int:
        """Refuse."""
        raise OSError(self._number, os.strerror(self._number))


class OddError(Exception):
    """An error that cannot be sent to another process."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


def _odd(kind: str) -> Iterator[int]:
    yield 1
    raise OddError("no", "pickle") if kind == "odd" else KeyError("planted")


@pytest.mark.parametrize(("kind", "error"), [("plain", KeyError), ("odd", RuntimeError)])
def test_an_error_in_a_process_of_the_audit_comes_with_its_traceback(
    kind: str, error: type[Exception]
) -> None:
    crew = Cores(1)
    try:
        with pytest.raises(error) as caught:
            list(crew.done(_odd, [(kind,)]))
    finally:
        crew.close()
    assert "in _odd" in "".join(caught.value.__notes__)


def test_what_the_machine_is_short_of_is_no_defect(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for error, says in (
        (OSError(errno.EMFILE, "Too many open files"), "Too many open files"),
        (MemoryError(), "out of memory"),
    ):

        def short(error: BaseException = error) -> list[Any]:
            raise error

        monkeypatch.setattr("harness.doctor.diagnose", short)
        assert cli.main(["doctor"]) == 3
        assert says in capsys.readouterr().err


def test_a_broken_pipe_of_our_own_is_a_defect(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only standard output's reader may go without a word."""

    def diagnose() -> list[Any]:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("harness.doctor.diagnose", diagnose)
    assert cli.main(["doctor"]) == 70
    assert "Traceback" in capsys.readouterr().err


def test_an_end_of_a_file_of_our_own_is_a_defect(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def diagnose() -> list[Any]:
        raise EOFError("marshal data too short")

    monkeypatch.setattr("harness.doctor.diagnose", diagnose)
    assert cli.main(["doctor"]) == ExitCode.DEFECT
    said = capsys.readouterr().err
    assert "marshal data too short" in said
    assert "interrupted" not in said


@pytest.mark.parametrize("command", PRINTING)
def test_a_full_disk_behind_standard_output(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", Refusing(errno.ENOSPC))
        assert cli.main(shlex.split(command)) == ExitCode.ENVIRONMENT
    assert (
        capsys.readouterr().err.splitlines()[-1]
        == "lostack: cannot write to standard output: No space left on device"
    )


@pytest.mark.parametrize("command", PRINTING)
def test_a_reader_that_has_gone(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is said, and it is no success: nobody has read the verdicts."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", Refusing(errno.EPIPE))
        assert cli.main(shlex.split(command)) == BROKEN_PIPE
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    "command", ["list --system memory", "--help", "run --system memory --only none"]
)
def test_a_full_disk_at_the_interpreters_last_flush(command: str) -> None:
    """A process of its own: it says one line, ends with that code, and Python adds nothing."""
    program = [sys.executable, "-m", "harness.cli", *command.split()]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            program,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=python_path(),
            timeout=120,
            check=False,
        )
    assert done.returncode == 3, done.stderr
    assert done.stderr.splitlines()[-1:] == [
        "lostack: cannot write to standard output: No space left on device"
    ]
    assert "Traceback" not in done.stderr


def test_standard_error_that_cannot_be_written_changes_no_exit_code() -> None:
    """There is no place left where it could be said."""
    program = [sys.executable, "-m", "harness.cli", "judge", "none"]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            program,
            stderr=full,
            env=python_path(),
            timeout=120,
            check=False,
        )
    assert done.returncode == 2


def test_progress_to_a_reader_that_has_gone_does_not_end_the_process_with_1() -> None:
    """As rich would."""
    program = (
        "import sys\nfrom harness.cli.streams import guarded, ReaderGoneError\nfrom "
        "harness.matrix.progress import make_progress\ntry:\n    with guarded(), "
        "make_progress(sys.stdout) as progress:\n        progress.say('x')\nexcept "
        "ReaderGoneError:\n    sys.exit(141)"
    )
    ends = os.pipe()
    os.close(ends[0])
    with os.fdopen(ends[1], "w") as gone:
        done = subprocess.run(
            [sys.executable, "-c", program], stdout=gone, cwd=ROOT, timeout=60, check=False
        )
    assert done.returncode == 141
