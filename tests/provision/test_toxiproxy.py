"""Where the Toxiproxy server comes from: a setting, the PATH, an earlier build, or Go; what is
missing is one clear line.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from harness.model.failures import EnvironmentFailure
from harness.provision import toxiproxy
from harness.provision.toxiproxy import (
    MODULE,
    PROGRAM,
    ensure_toxiproxy,
    fetch_go_from_wheel,
    find_toxiproxy,
    go_candidates,
    go_of_wheel,
)


def program(path: Path, text: str = "exit 0") -> Path:
    """Make a program of a few lines of shell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def no_go(_cache: Path, _say: object) -> Path:
    """Stand for a machine that cannot fetch Go."""
    raise EnvironmentFailure("Go could not be fetched; install Go")


def make_go(folder: Path, build: str) -> Path:
    """Make a ``go`` that answers ``version`` and builds what ``build`` says."""
    return program(
        folder / "go", f'[ "$1" = version ] && exit 0\necho "$@" > "$GOBIN/../asked"\n{build}'
    )


def test_the_setting_decides_alone(tmp_path: Path) -> None:
    """LOSTACK_TOXIPROXY is taken before the PATH, and is told when it names nothing that runs."""
    mine = program(tmp_path / "mine")
    on_path = program(tmp_path / "bin" / PROGRAM)
    environ = {"LOSTACK_TOXIPROXY": str(mine), "PATH": str(on_path.parent)}
    assert find_toxiproxy(tmp_path, environ) == mine
    with pytest.raises(EnvironmentFailure, match="LOSTACK_TOXIPROXY is set, but"):
        find_toxiproxy(tmp_path, {**environ, "LOSTACK_TOXIPROXY": str(tmp_path / "absent")})


def test_the_path_comes_before_a_build(tmp_path: Path) -> None:
    """A server on the PATH is used; nothing is built."""
    on_path = program(tmp_path / "bin" / PROGRAM)
    assert (
        ensure_toxiproxy(tmp_path, print, environ={"PATH": str(on_path.parent)}, fetch_go=no_go)
        == on_path
    )


def test_it_is_built_once_at_the_pinned_version(tmp_path: Path) -> None:
    """Go builds the named version into the cache; the next run finds it there and needs no Go."""
    go = make_go(
        tmp_path / "gobin", 'printf "#!/bin/sh\\n" > "$GOBIN/server"; chmod +x "$GOBIN/server"'
    )
    environ = {"PATH": f"{go.parent}:{os.defpath}"}
    cache = tmp_path / "cache"
    cache.mkdir()
    said: list[str] = []
    built = ensure_toxiproxy(cache, said.append, environ=environ, usual_go=(), fetch_go=no_go)
    assert built.name == PROGRAM
    assert built.is_relative_to(cache)
    assert (cache / "asked").read_text() == f"install {MODULE}\n"
    assert "v2.12.0" in MODULE
    assert (
        ensure_toxiproxy(cache, said.append, environ={"PATH": ""}, usual_go=(), fetch_go=no_go)
        == built
    )
    assert len([line for line in said if "building" in line]) == 1


def test_a_failed_build_leaves_nothing_and_says_why(tmp_path: Path) -> None:
    """The last line of Go's own words is in the message, and the next run starts from scratch."""
    go = make_go(tmp_path / "gobin", "echo 'dial tcp: no route to host' >&2; exit 1")
    with pytest.raises(
        EnvironmentFailure, match=r"could not be built \(dial tcp: no route to host\); install Go"
    ):
        ensure_toxiproxy(
            tmp_path, print, environ={"PATH": str(go.parent)}, usual_go=(), fetch_go=no_go
        )
    assert find_toxiproxy(tmp_path, {"PATH": ""}) is None


def test_without_go_it_is_fetched_or_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No Go anywhere: the fetch is tried, and its failure is the message."""
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path / "nowhere"))
    assert all(not path.exists() for path in go_candidates(tmp_path, {"PATH": ""}, ()))
    with pytest.raises(EnvironmentFailure, match="Go could not be fetched"):
        ensure_toxiproxy(tmp_path, print, environ={"PATH": ""}, usual_go=(), fetch_go=no_go)


def like_pip(command: list[str], _failure: str) -> None:
    """Lay out the wheel as pip does: ``bin/go`` imports a package that only an interpreter of that
    folder would find.
    """
    part = Path(command[-1])
    program(part / "bin" / "go", "echo \"No module named 'go'\" >&2; exit 1")
    program(part / "go" / "bin" / "go", '[ "$1" = version ]')


def test_the_go_of_the_wheel_is_the_program_and_not_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fetched once; the next run finds it among the candidates."""
    monkeypatch.setattr(toxiproxy, "_run", like_pip)
    found = fetch_go_from_wheel(tmp_path, print)
    assert subprocess.run([found, "version"], check=False).returncode == 0
    assert found in go_candidates(tmp_path, {"PATH": ""}, ())


def test_a_wheel_beside_this_python_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    assert go_of_wheel(tmp_path) in go_candidates(tmp_path / "cache", {"PATH": ""}, ())


@pytest.mark.rest
@pytest.mark.timeout(900)
def test_it_is_built_by_the_go_of_the_wheel(tmp_path: Path) -> None:
    """On a machine without a Go, and without a home: really fetched, really built."""
    environ = {
        name: value
        for name, value in os.environ.items()
        if name not in {"HOME", "LOSTACK_TOXIPROXY"}
    }
    said: list[str] = []
    built = ensure_toxiproxy(
        tmp_path, said.append, environ={**environ, "PATH": "/usr/bin:/bin"}, usual_go=()
    )
    assert any("fetching Go" in line for line in said)
    assert subprocess.run([built, "-version"], check=False).returncode == 0
    assert [file.name for file in built.parent.iterdir()] == [PROGRAM]
