"""``lostack doctor`` names what it found on this machine."""

from __future__ import annotations

import json
import platform
import sys
from typing import TYPE_CHECKING

from harness.cli import main

if TYPE_CHECKING:
    import pytest


def test_it_says_which_python_runs_lostack(capsys: pytest.CaptureFixture[str]) -> None:
    """The first line: whoever reports a fault of lostack's copies it along."""
    assert main(["doctor", "--json"]) in {0, 3}
    first, *_ = json.loads(capsys.readouterr().out)
    assert (first["name"], first["ok"]) == ("python", True)
    assert f" {platform.python_version()} at {sys.executable}" in first["detail"]
