"""A soak of the plain pipeline on a real Kafka, at least once: every duplicate is the one that its
fault must make.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.cli import main
from harness.judge.verdict import Kind
from harness.soak.waves import WAVES_FILE, read_waves

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.kafka, pytest.mark.rest, pytest.mark.timeout(600)]


def test_faults_one_after_the_other(tmp_path: Path) -> None:
    """Nothing is lost; an ack or a commit that is lost duplicates its record, a
    request does not.
    """
    words = [
        "--only",
        "ack-lost",
        "--only",
        "request-lost",
        "--only",
        "commit-lost",
        "--semantic",
        "at-least-once",
    ]
    many = ["--client", "kafka-python", "--records", "200", "--faults-per-minute", "600"]
    assert main(["soak", "plain", *words, *many, "--reports", str(tmp_path)]) == 0
    (folder,) = tmp_path.glob("soak-*")
    waves = read_waves(folder / WAVES_FILE)
    assert sum(wave.counts["offered"] for wave in waves) >= 200
    assert {wave.verdict for wave in waves} == {Kind.KEPT}
    for wave in waves:
        assert (len(wave.lost), len(wave.duplicated)) == (0, int(wave.scenario != "request-lost"))
