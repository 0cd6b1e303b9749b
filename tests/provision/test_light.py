"""lostack is light: without its extras it is small, runs Kafka's cells, and says in one line what a
command needs besides.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING, Final

import pytest

from harness.cli import main
from harness.model.extras import EXTRAS, lacks, require, why_missing
from harness.model.failures import EnvironmentFailure
from tests.docs.pages import ROOT
from tests.provision.light import build_wheel, closure, make_environment, requires

if TYPE_CHECKING:
    from pathlib import Path

HEAVY: Final = {
    "docker",
    "fastavro",
    "grpcio",
    "grpcio-tools",
    "protobuf",
    "py4j",
    "pyarrow",
    "pyspark",
    "stomp-py",
    "testcontainers",
}
"""The distributions that extras bring."""
IMPORT_ALL: Final = """
import importlib, pathlib
from harness.model.failures import EnvironmentFailure
from harness.model.extras import why_missing
import harness
root = pathlib.Path(harness.__file__).parent
for file in sorted(root.rglob("*.py")):
    parts = file.relative_to(root.parent).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    if parts[-1] == "__main__" or parts[1] == "demo" or "programs" in parts:  # for a user to run
        continue
    try:
        importlib.import_module(name)
    except EnvironmentFailure as error:
        print(name, "|", error)
    except ModuleNotFoundError as error:
        print(name, "|", why_missing(error) or f"!! {error}")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return lostack's wheel."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment without extras."""
    return make_environment(tmp_path_factory.mktemp("light") / "env", wheel)


def run(python: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program of an environment, which finds nothing of this one."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        (str(python), *words),
        cwd=python.parent,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_base_brings_nothing_heavy(wheel: Path) -> None:
    """Some 60 MB: pandas, NumPy and the clients of Kafka are the largest."""
    base = closure(requires(wheel))
    assert base & HEAVY == set()
    assert {"kafka-python", "pandas", "pytest", "toxiproxy-python"} <= base


def test_all_brings_everything(wheel: Path) -> None:
    """The extra ``all`` names every other one that users ask for."""
    assert closure(requires(wheel), "all") >= HEAVY


@pytest.mark.parametrize(
    ("command", "needs", "extra"),
    [
        (("run",), "the system spark needs pyspark", "spark"),
        (("run", "--system", "artemis"), "the system artemis needs stomp", "queues"),
        (("fetch", "spark"), "the system spark needs pyspark", "spark"),
        (
            ("run", "--system", "kafka", "--runtime", "docker"),
            "--runtime docker needs testcontainers",
            "docker",
        ),
        (("images",), "a container needs testcontainers", "docker"),
        (("audit", "--offered", "range:1-2", "--arrived", "range:1-2"), "pyarrow", "audit"),
        (("account", "."), "lostack account needs pyspark", "spark"),
    ],
)
def test_a_command_says_which_extra_it_needs(
    python: Path, command: tuple[str, ...], needs: str, extra: str
) -> None:
    """In one line, with exit code 3, before anything is fetched or started."""
    ended = run(python, "-m", "harness.cli", *command)
    assert ended.returncode == 3, ended.stderr
    [line] = ended.stderr.splitlines()
    assert line.startswith("lostack: ")
    assert needs in line
    assert line.endswith(f"which is not installed: pip install 'lostack[{extra}]'")


@pytest.mark.parametrize("command", ["points", "doctor"])
def test_what_needs_no_extra_runs_without(python: Path, command: str) -> None:
    ended = run(python, "-m", "harness.cli", command)
    assert ended.returncode in ({0, 3} if command == "doctor" else {0}), ended.stderr
    assert ended.stderr == ""
    if command == "doctor":
        assert (
            "not installed: spark, docker, queues, redis, nats, rabbitmq, audit, values"
            in ended.stdout
        )


def test_each_module_can_be_imported_or_says_what_it_needs(python: Path) -> None:
    """Nothing else than what needs an extra fails, and that in words."""
    ended = run(python, "-c", IMPORT_ALL)
    assert ended.returncode == 0, ended.stderr
    told = dict(line.split(" | ") for line in ended.stdout.splitlines())
    unexplained = {name: why for name, why in told.items() if "lostack[" not in why}
    assert set(unexplained) <= NOT_IMPORTED, unexplained
    assert all(name.startswith(NEED_EXTRAS) for name in told if name not in unexplained), told


NOT_IMPORTED: Final = {"harness.runtimes.process.forks", "harness.stages.clients.pulsar_client"}
"""A program that forks, started as a file; a client that has an environment of its own."""
NEED_EXTRAS: Final = (
    "harness.audit",
    "harness.provision.images",
    "harness.provision.spark_exercise",
    "harness.provision.table_exercise",
    "harness.runtimes.docker",
    "harness.soak.",
    "harness.stages.clients.stomp_py",
    "harness.stages.session",
    "harness.stages.streaming",
    "harness.systems.spark.",
)


def test_an_extra_that_is_installed_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [lacks(extra) for extra in EXTRAS] == [None] * len(EXTRAS)
    require("spark", "Spark")
    monkeypatch.setattr("harness.model.extras.EXTRAS", {"spark": ("json", "nowhere.at_all")})
    with pytest.raises(EnvironmentFailure, match=r"^Spark needs nowhere\.at_all, which is not"):
        require("spark", "Spark")


@pytest.mark.parametrize("name", ["pyarrows", "harness.nothing", "", None])
def test_a_defect_is_no_missing_extra(name: str | None) -> None:
    assert why_missing(ModuleNotFoundError(name=name)) is None
    assert why_missing(ImportError(name="pyspark")) is None


@pytest.mark.parametrize(
    ("name", "extra"),
    [("pyarrow.parquet", "audit"), ("pyspark.sql", "spark"), ("google.protobuf", "values")],
)
def test_the_smallest_extra_that_has_the_module_is_named(name: str, extra: str) -> None:
    """Both ``spark`` and ``audit`` bring PyArrow."""
    said = why_missing(ModuleNotFoundError(name=name))
    assert said is not None
    assert said.endswith(f"'lostack[{extra}]'")


def test_the_table_names_what_the_metadata_name() -> None:
    """Each extra of pyproject.toml has its modules in the table, and no other has."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = set(told["project"]["optional-dependencies"]) - {"all", "dev", "docs", "setup"}
    assert extras == set(EXTRAS)


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("--engine", "spark"), "spark"),
        (("--master", "local[2]"), "spark"),
        (("--arrived", "jdbc:postgresql://h/d#table=t&id=i"), "spark"),
        ((), "audit"),
    ],
    ids=["engine", "master", "a table", "here"],
)
def test_an_audit_names_at_once_the_extra_that_has_all_it_needs(
    words: tuple[str, ...],
    extra: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Where Spark is needed *spark* is named, which has what *audit* has; not one after the
    other.
    """
    monkeypatch.setattr("harness.model.extras.lacks", lambda of: EXTRAS[of][0])
    for module in [name for name in sys.modules if name.startswith("harness.audit")]:
        monkeypatch.delitem(sys.modules, module)
    sides = ("--offered", "range:1-9", "--arrived", "parquet:x#id=i")
    assert main(["audit", *sides, *words]) == 3
    assert f"pip install 'lostack[{extra}]'" in capsys.readouterr().err
