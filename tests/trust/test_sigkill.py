"""However a run ends, nothing of it goes on living, and what it has written can be read."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from harness.model.history import HISTORY, HistoryError, read_history
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.saved import CELLS, load_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from _pytest.mark.structures import ParameterSet

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300), pytest.mark.usefixtures("spark_set_up")]

GONE_S = 5.0
MOMENTS = [round(random.Random(number).uniform(0.3, 9.0), 2) for number in range(10)]


def rarely(moments: Sequence[float]) -> list[ParameterSet]:
    """Return moments that not every commit is tested at."""
    return [pytest.param(moment, marks=pytest.mark.rest) for moment in moments]


def ours(reports: Path) -> list[psutil.Process]:
    """Return the living processes that have anything to do with a reports folder, by command line
    or environment.
    """
    found = []
    for process in psutil.process_iter():
        try:
            words = " ".join([*process.cmdline(), *process.environ().values()])
            if (
                str(reports) in words
                and process.status() != psutil.STATUS_ZOMBIE
                and process.pid != os.getpid()
            ):
                found.append(process)
        except psutil.Error:  # it has ended meanwhile, or is somebody else's
            continue
    return found


def lives(process: psutil.Process) -> bool:
    """Whether it has not ended; a zombie has."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


@contextlib.contextmanager
def started(reports: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a run that is long enough to be interrupted anywhere; it ends with its test."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "harness.cli",
            "run",
            "--only",
            "ack-lost",
            "--only",
            "broker-crash-before-ack",
            "--reports",
            str(reports),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)


def guardian_of(process: subprocess.Popen[bytes]) -> psutil.Process | None:
    """Return one of its guardians, by the program's own name: a child not yet replaced by its
    program has its parent's words.
    """
    for child in psutil.Process(process.pid).children():
        with contextlib.suppress(psutil.Error):  # a short-lived helper may just have ended
            if any(Path(word).name == "guardian.py" for word in child.cmdline()):
                return child
    return None


def let_run(process: subprocess.Popen[bytes], seconds: float) -> list[psutil.Process]:
    """Let it run for a while, which is not its end: the moment is the input of the test. Return
    what it has started.
    """
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(seconds)
    return list(psutil.Process(process.pid).children(recursive=True))


def assert_nothing_left(reports: Path, offspring: Sequence[psutil.Process] = ()) -> None:
    """Nothing lives on (guardians, too: no word of theirs tells whose they are), and every history
    can be read undamaged.
    """

    def alive() -> list[psutil.Process]:
        return [*ours(reports), *(process for process in offspring if lives(process))]

    try:
        wait_until(lambda: not alive(), within_s=GONE_S, because="everything to be gone")
    except WaitTimeoutError:
        pytest.fail(f"outlived the run: {alive()}")
    for folder in reports.glob(f"*/{CELLS}/*"):
        try:
            assert read_history(folder / HISTORY).damage == ()
        except HistoryError:  # killed before the first line
            continue


@pytest.mark.parametrize("moment_s", [*MOMENTS[:1], *rarely(MOMENTS[1:5])])
def test_sigkill_of_the_harness_leaves_nothing(tmp_path: Path, moment_s: float) -> None:
    """SIGKILL of the harness at a random moment: the guardian ends brokers, wire and programs."""
    with started(tmp_path) as process:
        offspring = let_run(process, moment_s)
        process.kill()
        process.wait(10)
        assert_nothing_left(tmp_path, offspring)


@pytest.mark.parametrize("moment_s", [*MOMENTS[5:6], *rarely(MOMENTS[6:])])
def test_sigkill_of_a_guardian_leaves_nothing_and_is_reported(
    tmp_path: Path, moment_s: float
) -> None:
    """SIGKILL of a guardian: the kernel ends its nodes, and the run fails as an environment error,
    never as kept.
    """
    with started(tmp_path) as process:
        wait_until(lambda: guardian_of(process), within_s=30, because="a guardian")
        offspring = let_run(process, moment_s)
        wait_until(lambda: guardian_of(process), within_s=30, because="a guardian").kill()
        assert process.wait(60) == 3
        assert_nothing_left(tmp_path, offspring)


def test_sigterm_ends_in_a_partial_report(tmp_path: Path) -> None:
    """SIGTERM (like Ctrl-C) ends the cells under way; what is saved says that it is partial."""
    with started(tmp_path) as process:
        wait_until(
            lambda: list(tmp_path.glob(f"*/{CELLS}/*/{HISTORY}/wire.jsonl")),
            within_s=60,
            because="a cell under way",
        )
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 130
        assert_nothing_left(tmp_path)
    run = load_run(
        next(path for path in tmp_path.iterdir() if path.is_dir() and not path.is_symlink())
    )
    assert not run.whole
    assert (run.directory / "report.json").exists()
