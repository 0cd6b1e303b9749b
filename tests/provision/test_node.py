"""Which Node.js runs programs in JavaScript: this machine's, or a wheel's where that is too old."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.provision.node import NPM_OF_WHEEL, WHEEL, find_node, version_of
from harness.provision.wheels import WheelServer

if TYPE_CHECKING:
    from pathlib import Path


def tool(file: Path, says: str) -> Path:
    """Make a program that says this."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\necho {says}\n")
    file.chmod(0o755)
    return file


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program of a wheel that is there, on a machine that has no other."""
    program = tool(tmp_path / "wheel" / WHEEL.file, "v24.19.0")
    monkeypatch.setattr(WheelServer, "ensure", lambda *_: program)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return program


def test_the_machines_own_is_taken_where_it_is_new_enough(tmp_path: Path, wheel: Path) -> None:
    own, npm = tool(tmp_path / "bin/node", "v20.20.2"), tool(tmp_path / "bin/npm", "10.8.2")
    found = find_node((20, 19), print)
    assert (found.program, found.npm) == (own, (str(npm),))
    assert find_node((22, 22), print).program == wheel


def test_without_npm_or_node_the_wheel_has_both(tmp_path: Path, wheel: Path) -> None:
    tool(tmp_path / "bin/node", "v24.19.0")
    found = find_node((20,), print)
    assert found.program == wheel
    assert found.npm == (str(wheel), str(wheel.parents[1] / NPM_OF_WHEEL))


def test_what_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert version_of(tmp_path / "absent") == ()
    assert version_of(tool(tmp_path / "node", "something else")) == ()
