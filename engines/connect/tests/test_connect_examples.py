"""Proves with real workers what ``lostack check`` says of declared connectors: what a sink cannot
convert is lost without dead letters.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
WITHIN_S = 600.0
pytestmark = [pytest.mark.kafka, pytest.mark.rest(together=True), pytest.mark.timeout(900)]


def check(folder: Path, example: str, *words: str) -> tuple[str, list[dict[str, str]]]:
    """Check an example; return what was said, and what the report says of each cell."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "harness.cli", "check", str(EXAMPLES / example)),
            *("--jobs", "1", *words),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )
    report = folder / "reports" / "latest" / "report.json"
    cells = json.loads(report.read_text(encoding="utf-8"))["cells"] if report.exists() else []
    return done.stdout + done.stderr, cells


def test_what_cannot_be_converted_is_lost_without_dead_letters(tmp_path: Path) -> None:
    """The dry run alone says so; all states are RUNNING."""
    said, _ = check(tmp_path, "letters/mistake.toml")
    assert "broken without a fault: at-least-once forbids loss: 21 lost" in said
