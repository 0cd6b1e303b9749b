"""Ctrl-C and SIGTERM: the command ends soon, with 130 and a report that says it is partial."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WITHIN_S = 60.0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_an_interrupted_run_leaves_a_partial_report(tmp_path: Path, number: signal.Signals) -> None:
    """What has run is judged and kept, what has not is named, and nothing in it can be taken for a
    whole run.
    """
    command = [
        sys.executable,
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
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
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
