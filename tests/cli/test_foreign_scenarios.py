"""A user's own ``scenarios``, a folder or a module, is never taken for ours: not in the repository,
and not installed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.memory import INSTALLED
from tests.tiers import QUICK

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parents[2]
FOREIGN = ("scenarios/__init__.py", "scenarios.py")
HOSTILE = "raise SystemExit('a foreign scenarios was imported')\n"
BUILDS = {
    "pip": [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
    ],
    "uv": [
        str(Path(sys.executable).with_name("uv")),
        "--offline",
        "build",
        "--no-build-isolation",
        "--python",
        sys.executable,
        "--out-dir",
    ],
}
"""What makes a wheel: of the repository, and of the archive of sources that is made of that."""


@pytest.fixture(params=[FOREIGN[0], pytest.param(FOREIGN[1], marks=pytest.mark.rest)])
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A project that has scenarios of its own."""
    (tmp_path / "scenarios").mkdir()
    (tmp_path / str(request.param)).write_text(HOSTILE)
    return tmp_path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this repository, as uv makes it."""
    return built_by("uv", tmp_path_factory.mktemp("wheel"))


def built_by(name: str, target: Path) -> Path:
    """Return the wheel of this repository."""
    command = [*BUILDS[name], str(target), str(ROOT)]
    done = subprocess.run(
        command, cwd=target, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    [built] = target.glob("*.whl")
    return built


def python(folder: Path, *words: str, home: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder, whose modules come before those of ``home``."""
    simulated = (INSTALLED,) if home == ROOT else ()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (home, *simulated)))}
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def listed(folder: Path, home: Path = ROOT) -> list[str]:
    """Return the ids of all cells, as ``lostack list`` shows them in a folder."""
    done = python(folder, "-m", "harness.cli", "list", "--json", home=home)
    assert done.returncode == 0, done.stderr
    return [str(row["id"]) for row in json.loads(done.stdout)]


def test_the_folder_would_be_imported(folder: Path) -> None:
    """The tests below can fail: who imports ``scenarios`` in such a folder gets the foreign one."""
    assert "a foreign scenarios was imported" in python(folder, "-c", "import scenarios").stderr


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The ids of all cells where nobody has scenarios of his own."""
    return listed(tmp_path_factory.mktemp("empty"))


def test_the_commands_use_ours(folder: Path, ours: list[str]) -> None:
    """``list``, ``run`` and ``regressions``."""
    assert listed(folder) == ours
    ran = python(
        folder,
        "-m",
        "harness.cli",
        "run",
        "--system",
        "memory",
        "--only",
        "plain/ack-lost/exactly-once",
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert python(
        folder, "-m", "harness.cli", "regressions", "--only", "librdkafka-0"
    ).stderr.startswith(
        "lostack: no published bug is called librdkafka-0; did you mean librdkafka #5456?"
    )


def test_the_plugin_uses_ours(folder: Path) -> None:
    (folder / "test_cells.py").write_text((ROOT / "scenarios" / "test_scenarios.py").read_text())
    words = (
        "-p",
        "no:cacheprovider",
        "--lostack-system",
        "memory",
        "-k",
        "ack-lost and exactly-once",
    )
    done = python(folder, "-m", "pytest", *QUICK, *words, "test_cells.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 3 passed" in done.stdout


def test_the_repository_s_two_names_are_one_set_of_modules() -> None:
    """``scenarios`` and ``harness.scenarios`` are the same objects, whichever is imported first and
    however deep.
    """
    names = sorted(
        each.stem
        for each in (ROOT / "scenarios").glob("*.py")
        if not each.stem.startswith(("__", "test_"))
    )
    assert {"plain", "regressions"} <= set(names)
    for first, second in (("scenarios", "harness.scenarios"), ("harness.scenarios", "scenarios")):
        modules = [
            f"{name}{part}"
            for name in (first, second)
            for part in ("", *(f".{each}" for each in names))
        ]
        said = python(
            ROOT,
            "-c",
            f"import sys, {', '.join(modules)}\n"
            + "\n".join(
                f"assert sys.modules['scenarios{part}'] is "
                f"sys.modules['harness.scenarios{part}'] is harness.scenarios{part} is "
                f"scenarios{part}"
                for part in ("", *(f".{each}" for each in names))
            ),
        )
        assert said.returncode == 0, said.stderr


def files_below(folder: Path) -> Iterable[str]:
    """Yield what a folder has that is to be installed, by its path there; links are
    not followed.
    """
    for file in folder.rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts:
            yield str(file.relative_to(folder))


def test_a_wheel_has_the_scenarios_below_the_package(wheel: Path, tmp_path: Path) -> None:
    """And nothing beside it: every file of ours is there once, but for the scenarios' own test."""
    names, others = (
        [name for name in zipfile.ZipFile(each).namelist() if ".dist-info/" not in name]
        for each in (wheel, built_by("pip", tmp_path))
    )
    assert sorted(others) == sorted(names)
    wanted = {
        f"{package}/{name}"
        for package in ("harness", "lostack")
        for name in files_below(ROOT / package)
    }
    wanted |= {
        f"harness/scenarios/{name}"
        for name in files_below(ROOT / "scenarios")
        if not name.startswith("test_")
    }
    assert {"harness/scenarios/baseline.toml", "harness/scenarios/__init__.py"} <= wanted
    assert sorted(names) == sorted(wanted)


def test_a_wheel_that_is_unpacked_uses_its_own(wheel: Path, tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(home)
    (project / "scenarios").mkdir(parents=True)
    (project / FOREIGN[0]).write_text(HOSTILE)
    where = python(
        project,
        "-c",
        (
            "from harness import registry; print(registry.baseline()); "
            "print(registry.baseline().stat())"
        ),
        home=home,
    )
    assert where.stdout.startswith(f"{home}/harness/scenarios/baseline.toml\n"), where.stderr
    assert listed(project, home) == listed(tmp_path)
