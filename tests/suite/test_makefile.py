"""What a target of the Makefile says it takes, it takes."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_engines_are_chosen_by_name() -> None:
    """``make engines ENGINES=…`` makes nothing else depend on these names."""
    asked = subprocess.run(
        ["make", "--dry-run", "engines", "ENGINES=one other"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.returncode == 0, asked.stderr
    assert "--system $engine" in asked.stdout
