"""Another Spark by a setting: matched, written down, or refused in one line."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from harness.model.failures import EnvironmentFailure
from harness.provision.cache import cache_root
from harness.provision.java import find_java
from harness.provision.spark_install import SCALA, SparkInstall
from harness.provision.spark_release import (
    connector_parts,
    ensure_connector,
    ensure_pyspark,
    wanted_release,
)

if TYPE_CHECKING:
    from collections.abc import Callable

JAVA = cast("Any", None)
WHOLE = (
    "spark-sql-kafka-0-10_2.13-4.0.9",
    "spark-token-provider-kafka-0-10_2.13-4.0.9",
    "kafka-clients-3.9.2",
    "commons-pool2-2.12.1",
)


def bring(*names: str) -> Callable[..., None]:
    """Return what fetches these jars, and one that Spark has itself."""

    def retrieve(wanted: object, part: Path, *_: object) -> None:
        for name in (*names, "hadoop-client-runtime-3.4.1"):
            (part / f"{name}.jar").write_text(name)

    return retrieve


def connector(cache: Path, *names: str) -> Any:
    """Ask for the connector of 4.0.9, where these jars are."""
    return ensure_connector(
        "4.0.9", SCALA, cache=cache, java=JAVA, say=lambda _: None, retrieve=bring(*names)
    )


@pytest.mark.parametrize(("text", "wanted"), [("", None), ("4.0.0", None), (" 4.0.1 ", "4.0.1")])
def test_the_locked_release_is_the_default(text: str, wanted: str | None) -> None:
    assert wanted_release({"LOSTACK_SPARK": text}, "4.0.0") == wanted
    assert wanted_release({}, "4.0.0") is None


@pytest.mark.parametrize("text", ["latest", "4", "4.0.1; rm", "v4.0.1", "3.5.7"])
def test_what_is_no_release_is_refused(text: str) -> None:
    with pytest.raises(
        EnvironmentFailure,
        match=r"LOSTACK_SPARK must be a release of Spark 4 or later, such as 4\.0\.0",
    ):
        wanted_release({"LOSTACK_SPARK": text}, "4.0.0")


def test_a_matched_connector_is_written_down(tmp_path: Path) -> None:
    """What came is listed with its sums, without what Spark has itself; the next time nothing is
    fetched.
    """
    jar_set, directory = connector(tmp_path, *WHOLE)
    assert sorted(file.stem for file in directory.glob("*.jar")) == sorted(WHOLE)
    assert {f"{module.name}-{module.revision}" for module in jar_set.modules} == set(WHOLE)
    assert [module.name for module in jar_set.modules] == [
        part.name for part in connector_parts("4.0.9", SCALA)
    ]
    assert connector(tmp_path) == (jar_set, directory)


@pytest.mark.parametrize("missing", WHOLE)
def test_a_connector_that_is_not_whole_is_refused(tmp_path: Path, missing: str) -> None:
    """Nothing is left of it, so that it is tried again another day."""
    with pytest.raises(
        EnvironmentFailure,
        match=r"^Spark 4.0.9 cannot be used: \S+ is missing in its Kafka connector; unset",
    ):
        connector(tmp_path, *(name for name in WHOLE if name != missing))
    assert not list((tmp_path / "jars").glob("spark-4.0.9*"))
    connector(tmp_path, *WHOLE)


def test_a_mixed_connector_is_refused(tmp_path: Path) -> None:
    """A part of another release may run, and prove nothing about this one."""
    mixed = (WHOLE[0], "spark-token-provider-kafka-0-10_2.13-4.0.0", *WHOLE[2:])
    with pytest.raises(
        EnvironmentFailure,
        match=r"spark-token-provider-kafka-0-10_2.13 4.0.0 is of another release",
    ):
        connector(tmp_path, *mixed)


class Pip:
    """What stands in for pip: brings a package, or fails with its last words."""

    def __init__(self, error: str = "") -> None:
        self.error = error
        self.asked: list[list[str]] = []

    def run(self, command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        """Do as it was made to."""
        self.asked.append(command)
        if not self.error:
            (Path(command[command.index("--target") + 1]) / "pyspark").mkdir()
        return subprocess.CompletedProcess(command, 1 if self.error else 0, "", self.error)


def test_pyspark_comes_once_and_first_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lies in the cache, beside the environment that runs lostack, and its programs find it
    before any other.
    """
    pip = Pip()
    monkeypatch.setattr(subprocess, "run", pip.run)
    monkeypatch.setenv("PYTHONPATH", "mine")
    for _ in range(2):
        site = ensure_pyspark("4.0.9", cache=tmp_path, say=lambda _: None)
    assert [command[-1] for command in pip.asked] == ["pyspark==4.0.9"]
    install = SparkInstall(Path("java"), site / "pyspark", "", (), (), "4.0.9", site)
    assert install.env["PYTHONPATH"] == f"{site}{os.pathsep}mine"
    assert "PYTHONPATH" not in replace(install, site=None).env


def test_a_pyspark_that_does_not_come_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What pip said last is said; nothing is left behind."""
    monkeypatch.setattr(
        subprocess,
        "run",
        Pip("x\nERROR: No matching distribution found for pyspark==4.0.9\n\n").run,
    )
    with pytest.raises(
        EnvironmentFailure,
        match=r"^PySpark 4.0.9 cannot be installed: ERROR: No matching distribution",
    ):
        ensure_pyspark("4.0.9", cache=tmp_path, say=lambda _: None)
    assert not (tmp_path / "spark" / "4.0.9").exists()


@pytest.mark.spark
def test_a_release_that_does_not_resolve_is_refused(tmp_path: Path) -> None:
    """Asked for in earnest: there is no such release."""
    java = find_java(cache_root(), lambda _: None)
    with pytest.raises(
        EnvironmentFailure, match=r"^Spark 4.0.987 cannot be used: .*not found: org.apache.spark#"
    ) as told:
        ensure_connector("4.0.987", SCALA, cache=tmp_path, java=java, say=lambda _: None)
    assert "\n" not in str(told.value)
