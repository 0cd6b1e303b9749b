"""The real Storm: nothing of it outlives the harness, the writers of its workers' logs among it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import psutil
import pytest

from harness.model.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.kafka, pytest.mark.storm, pytest.mark.rest(together=True)]

UP_S = 120.0
GONE_S = 10.0
WORKER = "org.apache.storm.daemon.worker.Worker"
WRITER = "org.apache.storm.LogWriter"


def test_nothing_outlives_the_harness(tmp_path: Path) -> None:
    """Killed in the middle of a cell, it leaves no worker, and nobody who writes down what a worker says."""
    words = ("run", "--system", "storm", "--only", "none", "--reports", str(tmp_path))
    harness = subprocess.Popen((sys.executable, "-m", "harness.cli", *words), stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    below: dict[int, psutil.Process] = {}

    def up() -> bool:
        below.update({one.pid: one for one in psutil.Process(harness.pid).children(recursive=True)})
        said = [_words(one) for one in below.values()]
        return any(WORKER in words and WRITER not in words for words in said) and any(WRITER in words for words in said)

    try:
        wait_until(up, within_s=UP_S, because="a worker")
    finally:
        harness.kill()
        harness.wait()
    wait_until(lambda: not any(one.is_running() for one in below.values()), within_s=GONE_S, because="all to be gone")


def _words(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:  # it has just ended
        return []
