"""A stream on a real Kafka: each fault is judged in its window, under each semantic, and it goes on
after a SIGKILL.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.cli import main
from harness.judge.verdict import Kind
from harness.model.semantics import Semantic
from harness.model.waiting import wait_until
from harness.soak.found import read_lines
from harness.soak.waves import WAVES_FILE

pytestmark = [pytest.mark.kafka, pytest.mark.rest, pytest.mark.timeout(400)]
RECORDS = 3_000_000
"""So many that a fault is armed long before the last of them: a stream takes 400,000 a second."""


def lines(folder: Path) -> list[dict[str, Any]]:
    """Return what the one soak of a folder has written."""
    found = list(folder.glob("soak-*"))
    return read_lines(found[0] / WAVES_FILE) if found else []


@pytest.mark.parametrize("semantic", Semantic)
def test_faults_strike_a_stream(tmp_path: Path, semantic: Semantic) -> None:
    """A lost answer, a killed program, a killed broker: as theory says; outside of their windows
    there is nothing.
    """
    only = [
        f"--only={name}"
        for name in (
            "ack-lost",
            "producer-crash-before-ack",
            "commit-lost",
            "broker-crash-before-ack",
        )
    ]
    words = [
        "--semantic",
        semantic,
        *only,
        "--records",
        str(RECORDS),
        "--faults-per-minute",
        "60",
        "--seed",
        "2",
    ]
    assert main(["soak", "plain", *words, "--reports", str(tmp_path)]) == 0
    faults = [line for line in lines(tmp_path) if "verdict" in line]
    assert faults
    assert {line["verdict"] for line in faults} == {Kind.KEPT}
    for line in faults:
        assert line["counts"]["lost"] == 0 or semantic is Semantic.AT_MOST_ONCE
        assert (line["counts"]["duplicated"] > 0) == (semantic is Semantic.AT_LEAST_ONCE)
    outside = lines(tmp_path)[-1]
    assert (outside["lost"], outside["duplicated"]) == ([], [])


def test_it_goes_on_after_a_sigkill(tmp_path: Path) -> None:
    words = ["soak", "plain", "--records", str(RECORDS), "--faults-per-minute", "60"]
    command = [str(Path(sys.executable).with_name("lostack")), *words, "--reports", str(tmp_path)]
    with subprocess.Popen(command, start_new_session=True) as first:
        wait_until(
            lambda: any("armed" in line for line in lines(tmp_path)),
            within_s=100,
            because="a fault to be armed",
        )
        os.killpg(first.pid, signal.SIGKILL)
    (folder,) = tmp_path.glob("soak-*")
    assert "counts" not in lines(tmp_path)[-1]
    assert main([*words, "--resume", str(folder)]) == 0
    assert [line["leg"] for line in lines(tmp_path) if "leg" in line] == [0, 1]
    assert lines(tmp_path)[-1]["counts"] == {
        "lost": 0,
        "duplicated": 0,
        "phantom": 0,
        "absorbed": 0,
    }
