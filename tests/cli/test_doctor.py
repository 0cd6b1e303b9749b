"""``lostack doctor`` names what it found on this machine."""

from __future__ import annotations

import json
import platform
import sys
from typing import TYPE_CHECKING

import harness.doctor
from harness.cli import main
from harness.model.failures import EnvironmentFailure

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_it_says_which_python_runs_lostack(capsys: pytest.CaptureFixture[str]) -> None:
    """The first line: whoever reports a fault of lostack's copies it along."""
    assert main(["doctor", "--json"]) in {0, 3}
    first, *_ = json.loads(capsys.readouterr().out)
    assert (first["name"], first["ok"]) == ("python", True)
    assert f" {platform.python_version()} at {sys.executable}" in first["detail"]


def test_it_says_once_what_several_checks_lack(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All that is looked for in a cache that is read-only, and empty, is missing for one reason."""
    why = "cannot write to the cache /there (Read-only file system): make it writable"

    def refuse() -> Path:
        raise EnvironmentFailure(why)

    monkeypatch.setattr(harness.doctor, "cache_root", refuse)
    monkeypatch.setattr(harness.doctor, "candidates", lambda _: ())
    assert main(["doctor", "--json"]) == 3
    found = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert [name for name, row in found.items() if row["detail"] == why] == ["cache"]
    behind = [row for row in found.values() if row["detail"].endswith("see cache")]
    assert len(behind) >= 3
    assert not any(row["ok"] for row in behind)
