"""The real Flink: what its log tells of a loss, and that nothing of it outlives the harness."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil
import pytest

from harness import cli
from harness.model.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.kafka, pytest.mark.flink, pytest.mark.rest(together=True)]

COMMIT = re.compile(r"ERROR KafkaCommitter .*?(Unable to commit transaction).*?(because .*)")
UP_S = 120.0
GONE_S = 10.0


def said(logs: Path) -> set[tuple[str, ...]]:
    """Return what the sinks on a cluster said of transactions that they could not commit, without
    names and time-outs.
    """
    texts = (log.read_text(errors="replace") for log in logs.glob("flink/task-manager-*.log"))
    return {
        tuple(re.sub(r"\d+ms", "", word) for word in found.groups())
        for text in texts
        for found in COMMIT.finditer(text)
    }


def test_the_log_does_not_tell_a_loss_from_none(tmp_path: Path) -> None:
    """The sink that has lost four records says what one says that has lost nothing; both jobs run
    on.
    """
    only = ("flink-outage-longer-than-transaction", "flink-crash-after-commit")
    words = ["run", "--system", "flink", "--suite", "night", "--reports", str(tmp_path)]
    assert cli.main([*words, *(word for each in only for word in ("--only", each))]) == 0
    lossy, harmless = (
        said(logs) for logs in sorted((tmp_path / "latest" / "deployments").iterdir())
    )
    assert lossy
    assert lossy == harmless


def test_nothing_outlives_the_harness(tmp_path: Path) -> None:
    words = ("run", "--system", "flink", "--only", "none", "--reports", str(tmp_path))
    harness = subprocess.Popen(
        (sys.executable, "-m", "harness.cli", *words),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
    )
    below: dict[int, psutil.Process] = {}

    def up() -> bool:
        below.update({one.pid: one for one in psutil.Process(harness.pid).children(recursive=True)})
        return sum("TaskManagerRunner" in " ".join(_words(one)) for one in below.values()) > 0

    try:
        wait_until(up, within_s=UP_S, because="a TaskManager")
    finally:
        harness.kill()
        harness.wait()
    wait_until(
        lambda: not any(one.is_running() for one in below.values()),
        within_s=GONE_S,
        because="all to be gone",
    )


def _words(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:  # it has just ended
        return []
