"""What a cluster's JVMs are told of class-data archives, without a JVM."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from harness.provision.archive import Archive
from harness.systems.flink import archive
from harness.systems.flink.install import FlinkInstall

if TYPE_CHECKING:
    from harness.provision.kafka import KafkaInstall

INSTALL = FlinkInstall(
    Path("java"), "flink.jar:kafka.jar", Path("job.jar"), Path("services.jar"), "2.3.0", "5"
)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Archive]:
    """Return what there is of an archive, the last one; it is made of all jars that a JobManager
    has.
    """
    there = [Archive(None, "no room")]

    def ensure(_: object, jars: tuple[Path, ...], **__: object) -> Archive:
        assert [jar.name for jar in jars] == ["flink.jar", "kafka.jar", "services.jar"]
        return there[-1]

    monkeypatch.setattr(archive, "ensure_archive", ensure)
    monkeypatch.setattr(archive, "find_java", lambda *_: None)
    monkeypatch.setattr(archive, "cache_root", lambda: tmp_path)
    return there


def with_archives() -> FlinkInstall:
    """Return it, with what there is."""
    return archive.with_archives(INSTALL, cast("KafkaInstall", None), lambda _: None)


def test_without_an_archive_the_jvms_are_started_as_they_are(made: list[Archive]) -> None:
    assert made
    assert with_archives() == INSTALL


def test_each_jvm_has_the_archive_of_its_own_classes(made: list[Archive]) -> None:
    made.append(Archive(Path("/c/classes.jsa")))
    found = with_archives()
    assert found.job_manager[0] == "-XX:SharedArchiveFile=/c/classes.jsa"
    assert found.task_manager[0] == "-XX:SharedArchiveFile=/c/task-manager.jsa"
