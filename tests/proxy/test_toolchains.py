"""Where a toolchain is missing it is said which; what is fetched is locked by checksums."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.proxy import toolchains

WHERE = (ROOT / "examples" / "proxy", Path(__file__).with_name("programs"))
LOCKS = [lock for folder in WHERE for lock in sorted(folder.rglob("package-lock.json"))]
SUMS = [lock for folder in WHERE for lock in sorted(folder.rglob("go.sum"))]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.parent.name)
def test_packages_of_npm_are_known_by_checksum_and_not_by_address(lock: Path) -> None:
    """`npm ci` compares the one, and would go to the other."""
    packages = json.loads(lock.read_text(encoding="utf-8"))["packages"]
    fetched = [package for name, package in packages.items() if name]
    assert fetched
    assert all(package["integrity"].startswith("sha512-") for package in fetched)
    assert not any("resolved" in package for package in fetched)


@pytest.mark.parametrize("lock", SUMS, ids=lambda lock: lock.parent.name)
def test_modules_of_go_are_known_by_checksum(lock: Path) -> None:
    """All that `go.mod` names."""
    lines = lock.read_text(encoding="utf-8").splitlines()
    known = {tuple(line.split()[:2]) for line in lines if " h1:" in line}
    named = [
        tuple(line.removeprefix("require ").split()[:2])
        for line in lock.with_name("go.mod").read_text(encoding="utf-8").splitlines()
        if line.startswith(("\t", "require g"))
    ]
    assert named
    assert set(named) <= known


def test_a_toolchain_that_is_missing_or_too_old_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchains, "go_candidates", lambda *_: [tmp_path / "go"])
    monkeypatch.setenv("PATH", str(tmp_path))
    toolchains.go.cache_clear()
    assert str(toolchains.why_no_go()).startswith("there is no Go 1.")
    assert toolchains.why_no_node() == "there is no node"
    for name, told in (("node", "v18.20.4"), ("npm", "10.1.0"), ("go", "go version go1.19.8")):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho {told}\n", encoding="utf-8")
        program.chmod(0o755)
    assert toolchains.why_no_node() == "there is no Node 20.0 or newer"
    assert str(toolchains.why_no_go()).startswith("there is no Go 1.")
    (tmp_path / "node").write_text("#!/bin/sh\necho v22.1.0\n", encoding="utf-8")
    (tmp_path / "go").write_text("#!/bin/sh\necho go version go1.99.1\n", encoding="utf-8")
    toolchains.go.cache_clear()
    assert toolchains.why_no_node() is None
    assert toolchains.why_no_go() is None
    toolchains.go.cache_clear()
