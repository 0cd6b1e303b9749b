"""Proves on a real NATS that a run of many seeds survives SIGKILL: what was done is not done
again, no process of it stays, and lostack's own process does not grow from seed to seed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from harness.model.waiting import wait_until
from harness.soak.seeds import HELD_FILE, ROWS_FILE
from harness.soak.waves import RUNS

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.server, pytest.mark.rest, pytest.mark.timeout(300)]

ASKED = (
    *("run", "--system", "nats", "--only", "stream/ack-lost", "--only", "stream/none"),
    *("--semantic", "at-least-once", "--seeds", "6", "--hours", "1"),
)


def rows(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of the cells that have ended."""
    file = folder / ROWS_FILE
    whole = file.read_text().rpartition("\n")[0] if file.exists() else ""
    return [json.loads(line) for line in whole.splitlines()]


def of(folder: Path) -> list[str]:
    """Return the processes that name a folder."""
    return [
        " ".join(each.info["cmdline"])
        for each in psutil.process_iter(["cmdline"])
        if any(str(folder) in word for word in each.info["cmdline"] or ())
    ]


def test_it_is_killed_and_goes_on(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "harness.cli", *ASKED, "--reports", str(tmp_path)]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL) as first:
        wait_until(
            lambda: any(len(rows(each)) > 2 for each in tmp_path.glob("seeds-*")),
            within_s=120.0,
            because="three cells to end",
        )
        first.kill()
    [folder] = tmp_path.glob("seeds-*")
    before = rows(folder)
    assert len(before) < 12
    wait_until(lambda: not of(tmp_path), within_s=30.0, because="its processes to end with it")
    done = subprocess.run([*command, "--resume", str(folder)], cwd=tmp_path, check=False)
    assert done.returncode == 0
    after = rows(folder)
    assert after[: len(before)] == before
    assert len({row["cell"] for row in after}) == len(after) == 12
    assert all(row["green"] for row in after)
    assert of(tmp_path) == []
    assert [each.name for each in (folder / RUNS).iterdir() if each.is_dir()] == []
    held = [json.loads(line) for line in (folder / HELD_FILE).read_text().splitlines()]
    one, last = held[-3], held[-1]
    assert {name: last[name] - one[name] for name in ("descriptors", "threads", "processes")} == {
        "descriptors": 0,
        "threads": 0,
        "processes": 0,
    }, held
    assert last["resident_mb"] - one["resident_mb"] < 32, held
