"""What Storm's JVMs are told of class-data archives, without a JVM."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from harness.provision.archive import Archive
from harness.systems.storm import archive
from harness.systems.storm.install import StormInstall
from tests.systems.storm.machine import started

if TYPE_CHECKING:
    from harness.provision.kafka import KafkaInstall

INSTALL = StormInstall(
    Path("/j/bin/java"), (Path("storm.jar"), Path("kafka.jar")), Path("topology.jar"), {}
)
THERE = "-XX:SharedArchiveFile=/c/{}.jsa"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Archive]:
    """Return what there is of an archive, the last one; it is made of all jars that a worker has,
    in their order.
    """
    there = [Archive(None, "no room")]

    def ensure(_: object, jars: tuple[Path, ...], **__: object) -> Archive:
        assert [jar.name for jar in jars] == ["topology.jar", "storm.jar", "kafka.jar"]
        return there[-1]

    monkeypatch.setattr(archive, "ensure_archive", ensure)
    monkeypatch.setattr(archive, "find_java", lambda *_: None)
    monkeypatch.setattr(archive, "cache_root", lambda: tmp_path)
    return there


def jvms(
    folder: Path, *, alone: bool = False
) -> tuple[dict[str, tuple[str, ...]], list[list[str]]]:
    """Return with what each daemon is started, and with what a worker and its writer are."""
    install = archive.with_archives(INSTALL, cast("KafkaInstall", None), lambda _: None)
    commands, conf = started(install, folder, alone=alone)
    return commands, [
        conf[name].split() for name in ("worker.childopts", "topology.worker.logwriter.childopts")
    ]


def test_without_an_archive_the_jvms_are_started_as_they_are(
    made: list[Archive], tmp_path: Path
) -> None:
    assert made
    daemons, workers = jvms(tmp_path)
    assert not any(
        word.startswith("-XX:Shared") for words in (*daemons.values(), *workers) for word in words
    )


@pytest.mark.parametrize("alone", [False, True])
def test_each_jvm_has_the_archive_of_its_own_classes(
    made: list[Archive], tmp_path: Path, *, alone: bool
) -> None:
    """All were made by one exercise, and lie side by side; the workers' has the name that every
    archive has.

    Who writes a worker's log has its class path, and its archive.
    """
    made.append(Archive(Path("/c/classes.jsa")))
    daemons, workers = jvms(tmp_path, alone=alone)
    for name in ("zookeeper", "nimbus", "supervisor"):
        assert THERE.format(name) in daemons[name]
    assert all(THERE.format("classes") in words for words in workers)
