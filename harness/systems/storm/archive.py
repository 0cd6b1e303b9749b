"""The class-data archives of a worker, and of its parent, which writes its log: half of their starts was parsing classes.

They are made by a worker that runs our topology until one record is through, and is told to end. ZooKeeper, Nimbus and supervisor
start once for all cells, and go without.
"""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import psutil
from kafka import KafkaProducer

from harness.model import events as kinds
from harness.model.failures import EnvironmentFailure
from harness.model.record import Record
from harness.model.tail import SoFar
from harness.model.waiting import wait_until
from harness.provision.archive import QUIET, ensure_archive
from harness.provision.cache import cache_root
from harness.provision.java import find_java
from harness.systems.kafka.launcher import ProcessGround
from harness.systems.kafka.transport import KafkaTransport
from harness.systems.storm.cluster import Cluster
from harness.systems.storm.settings import STORM_AT_LEAST_ONCE
from harness.systems.storm.words import Place, words_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.provision.kafka import KafkaInstall
    from harness.systems.storm.install import StormInstall

ARCHIVES: Final = {"worker": "classes.jsa", "writer": "writer.jsa"}
"""The worker's has the name that every archive has."""
DONE_S: Final = 90.0
POLL_S: Final = 0.2
NAME: Final = "archive"


def with_archives(install: StormInstall, kafka: KafkaInstall, say: Callable[[str], None]) -> StormInstall:
    """Return the same with what makes its JVMs start sooner, made where this is the first time; as it is where that fails."""
    cache = cache_root()
    jars = (install.topology, *install.jars)
    archive = ensure_archive(find_java(cache, say), jars, cache=cache, say=say, recipe="storm",
                             make=lambda _, __, folder: _exercise(kafka, install, folder))  # fmt: skip
    if archive.path is None:
        return install
    found = {name: archive.path.with_name(file) for name, file in ARCHIVES.items()}
    return replace(install, flags={name: (f"-XX:SharedArchiveFile={path}", *QUIET) for name, path in found.items()})


def _exercise(kafka: KafkaInstall, install: StormInstall, folder: Path) -> None:
    """Let a Storm work, and leave the archives in ``folder``. Raises where any step fails."""
    archives = {name: folder / file for name, file in ARCHIVES.items()}
    own = replace(install, flags={name: (f"-XX:ArchiveClassesAtExit={path}",) for name, path in archives.items()})
    work = folder / "work"
    history = work / "history"
    history.mkdir(parents=True)
    with ExitStack() as ends:
        transport = KafkaTransport(ProcessGround(kafka), work)
        ends.callback(transport.close)
        cluster = Cluster(transport.runtime, own, work / "storm")
        ends.callback(cluster.close)
        cluster.start()
        transport.start()
        transport.observer.create_topics({"in": (1, {}), "out": (1, {})})
        cluster.await_up()
        place = Place(transport.direct, "in", "out", NAME, history, work / "failpoints", NAME)
        cluster.submit(NAME, words_of(place, STORM_AT_LEAST_ONCE, NAME))
        worker = SoFar(history)
        said = wait_until(lambda: worker.of(kinds.READY), within_s=DONE_S, because="the archive's worker to run", poll_s=POLL_S)
        _one_record(transport.direct)
        wait_until(lambda: transport.observer.copies("out"), within_s=DONE_S, because="the archive's record", poll_s=POLL_S)
        # both write their archives when they end; a supervisor that ends them has no patience for that
        process = psutil.Process(said[0]["pid"])
        below = (process, *process.parents()[:1])
        process.terminate()
        _, left = psutil.wait_procs(below, timeout=DONE_S)
        if left:
            raise EnvironmentFailure("the archive's worker does not end")
    for archive in archives.values():
        if not archive.exists() or not archive.stat().st_size:
            raise EnvironmentFailure(f"the JVM wrote no archive {archive.name}")
    shutil.rmtree(work)


def _one_record(servers: str) -> None:
    producer = KafkaProducer(bootstrap_servers=servers)
    try:
        producer.send("in", Record("k-1", "k", 1).encode(NAME), b"k").get(DONE_S)
    finally:
        producer.close(timeout=1)
