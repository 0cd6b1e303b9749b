"""Flink is fetched by its sum, once, and only what is needed of it is kept; without a network one line says so."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest

from harness.model.failures import EnvironmentFailure
from harness.provision.jars import read_jar_set
from harness.systems.flink import install

if TYPE_CHECKING:
    from pathlib import Path

JARS = ("flink-dist.jar", "log4j.jar")


def wheel(folder: Path, *names: str) -> Path:
    """Write a wheel with jars of these names, and others."""
    folder.mkdir()
    file = folder / "flink.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for name in (*names, "table-planner.jar"):
            archive.writestr(f"pyflink/lib/{name}", f"what {name} holds")
    return file


def test_what_is_needed_of_the_wheel_is_unpacked_and_nothing_else(tmp_path: Path) -> None:
    """The wheel itself goes again: it is as large as all that is in it."""
    said: list[str] = []
    found = install.ensure_wheel(tmp_path, said.append, lambda folder: wheel(folder, *JARS), JARS)
    assert {file.name: file.read_text() for file in found.iterdir()} == {name: f"what {name} holds" for name in JARS}
    assert len(said) == 1


def test_it_is_fetched_once(tmp_path: Path) -> None:
    """Where all is there nobody is asked, and nothing is said."""
    install.ensure_wheel(tmp_path, lambda _: None, lambda folder: wheel(folder, *JARS), JARS)
    said: list[str] = []
    install.ensure_wheel(tmp_path, said.append, None, JARS)
    assert said == []


def test_one_that_is_not_whole_leaves_nothing(tmp_path: Path) -> None:
    """A wheel without one of the jars is none of ours; the next run fetches again."""
    with pytest.raises(KeyError, match="log4j"):
        install.ensure_wheel(tmp_path, lambda _: None, lambda folder: wheel(folder, JARS[0]), JARS)
    assert not (tmp_path / "flink" / install.VERSION).exists()


def test_without_a_network_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the wheel, and asks for a network; pip's own words are not all repeated."""
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_NO_INDEX", "0")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(EnvironmentFailure) as failure:
        install.ensure_wheel(tmp_path, lambda _: None)
    assert install.WHEEL in str(failure.value)
    assert str(failure.value).endswith("is there a network?")
    assert "\n" not in str(failure.value)


def test_the_connector_names_the_client_that_it_brings() -> None:
    """Both jars have a sum, and each its module: nobody is asked what it depends on."""
    found = read_jar_set(install.CONNECTOR, install.HERE)
    assert found.listed
    assert sorted(module.name for module in found.modules) == ["flink-connector-kafka", "kafka-clients"]
