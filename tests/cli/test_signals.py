"""Ctrl-C and SIGTERM: the command ends with 130 and a partial report, in the background, too."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.memory import python_path
from tests.tiers import QUICK

ROOT = Path(__file__).parents[2]
WITHIN_S = 60.0
SESSION_WITHIN_S = 300.0
DEAF = (
    "import os, signal, sys\n"
    "for number in {ignored!r}: signal.signal(number, signal.SIG_IGN)\n"
    "signal.pthread_sigmask(signal.SIG_BLOCK, {blocked!r})\n"
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)


def deaf(*ignored: signal.Signals, blocked: tuple[signal.Signals, ...] = ()) -> list[str]:
    """Return how to start Python with signals ignored or blocked, as shells do in background."""
    words = DEAF.format(
        ignored=[int(each) for each in ignored], blocked=[int(each) for each in blocked]
    )
    return [sys.executable, "-c", words]


BOTH = (signal.SIGINT, signal.SIGTERM)


@pytest.mark.parametrize(
    ("begun", "number"),
    [
        pytest.param([sys.executable], signal.SIGTERM, id="sigterm"),
        pytest.param(deaf(*BOTH), signal.SIGINT, id="ignored ctrl-c"),
        pytest.param(deaf(blocked=BOTH), signal.SIGINT, id="blocked ctrl-c"),
    ],
)
def test_an_interrupted_run_leaves_a_partial_report(
    tmp_path: Path, begun: list[str], number: signal.Signals
) -> None:
    """What has run is judged and kept, what has not is named, and nothing in it can be taken for a
    whole run.
    """
    command = [
        *begun,
        "-m",
        "harness.cli",
        "run",
        "--system",
        "memory",
        "--only",
        "none",
        "--seeds",
        "99",
        "--jobs",
        "1",
    ]
    environment = python_path() | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        watchdog = threading.Timer(WITHIN_S, process.kill)
        watchdog.start()
        assert process.stdout is not None
        began = next((line for line in process.stdout if line.startswith("[")), None)
        process.send_signal(number)
        out, err = process.communicate()
        watchdog.cancel()
    assert began is not None, err
    assert process.returncode == 130, err
    assert "PARTIAL" in out
    assert "interrupted: the report is PARTIAL" in err
    assert "Traceback" not in out + err
    report = json.loads(
        (tmp_path / "reports" / "latest" / "report.json").read_text(encoding="utf-8")
    )
    assert report["run"]["complete"] is False
    assert report["summary"]["partial"]
    assert not report["summary"]["green"]
    assert 0 < report["summary"]["ran"] < report["summary"]["planned"]
    assert len(report["cells"]) + len(report["missing"]) == report["summary"]["planned"]
    assert len(report["cells"]) - report["summary"]["ran"] in (
        0,
        1,
    )  # the one under way: all share one lane


def test_a_run_that_ignores_hangups_goes_on(tmp_path: Path) -> None:
    """``nohup`` means SIGHUP, and that it stays ignored."""
    inside = (
        "import os, signal\nfrom harness.cli.signals import interruptible\n"
        "with interruptible(): os.kill(os.getpid(), signal.SIGHUP)\nprint('on')"
    )
    done = subprocess.run(
        [*deaf(signal.SIGHUP), "-c", inside], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "on\n"), done.stderr


def test_children_that_fail_are_seen_to_fail(tmp_path: Path) -> None:
    """Where SIGCHLD is ignored the kernel forgets how a child ended, and Python says 0."""
    inside = (
        "import subprocess\nfrom harness.cli.signals import interruptible\n"
        "with interruptible(): print(subprocess.run(['false'], check=False).returncode)"
    )
    done = subprocess.run(
        [*deaf(signal.SIGCHLD), "-c", inside], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


SENDER = """
import os, signal, subprocess, sys
import pytest

@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_child_ends_by_it(number):
    waits = [sys.executable, "-c", "print(1, flush=True); input()"]
    with subprocess.Popen(waits, stdin=-1, stdout=-1) as child:
        assert child.stdout.readline() == b"1\\n"
        child.send_signal(number)
        assert child.wait(60) == -number

def test_so_does_what_runs():
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
"""


@pytest.mark.parametrize(
    "workers",
    [
        pytest.param((), id="alone"),
        pytest.param(("-n", "1"), id="workers", marks=pytest.mark.rest),
    ],
)
def test_tests_hear_signals_where_pytest_was_begun_with_them_ignored(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    """As by ``make test &`` in a script: tests may send signals to themselves and to children."""
    (tmp_path / "test_sender.py").write_text(SENDER, encoding="utf-8")
    session = (
        "-m",
        "pytest",
        "-q",
        "-c",
        str(ROOT / "pyproject.toml"),
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
        *QUICK,
        *workers,
        str(tmp_path),
    )
    command = [*deaf(signal.SIGINT, signal.SIGTERM), *session]
    (own := tmp_path / "tmp").mkdir()  # in the system's are the folders of tests beside this one
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(own)},
        check=False,
        capture_output=True,
        text=True,
        timeout=SESSION_WITHIN_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_an_interrupt_during_the_imports_is_one_line() -> None:
    program = """
import os, signal, sys
class Interrupts:
    def find_spec(self, name, *_):
        if name == "typer":
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
from harness.cli import main
sys.exit(main(["list"]))
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "lostack: interrupted\n")
