"""What a worker and its parent are told of class-data archives, without a JVM."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from harness.provision.archive import Archive
from harness.systems.storm import archive
from harness.systems.storm.install import StormInstall

if TYPE_CHECKING:
    from harness.provision.kafka import KafkaInstall

INSTALL = StormInstall(Path("java"), (Path("storm.jar"), Path("kafka.jar")), Path("topology.jar"), {})


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Archive]:
    """Return what there is of an archive, the last one; it is made of all jars, the topology in front as in the class path."""
    there = [Archive(None, "no room")]

    def ensure(_: object, jars: tuple[Path, ...], **__: object) -> Archive:
        assert ":".join(map(str, jars)) == INSTALL.classpath == "topology.jar:storm.jar:kafka.jar"
        return there[-1]

    monkeypatch.setattr(archive, "ensure_archive", ensure)
    monkeypatch.setattr(archive, "find_java", lambda *_: None)
    monkeypatch.setattr(archive, "cache_root", lambda: tmp_path)
    return there


def with_archives() -> StormInstall:
    """Return it, with what there is."""
    return archive.with_archives(INSTALL, cast("KafkaInstall", None), lambda _: None)


def test_without_an_archive_workers_are_started_as_they_are(made: list[Archive]) -> None:
    """It only saves time."""
    assert made
    assert with_archives() == INSTALL


def test_a_worker_and_its_parent_have_archives_of_their_own(made: list[Archive]) -> None:
    """No daemon has one."""
    made.append(Archive(Path("/c/classes.jsa")))
    found = with_archives().flags
    assert set(found) == {"worker", "writer"}
    assert found["worker"][0] == "-XX:SharedArchiveFile=/c/classes.jsa"
    assert found["writer"][0] == "-XX:SharedArchiveFile=/c/writer.jsa"
