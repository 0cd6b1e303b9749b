"""Make the class-data archives of workers and daemons, which halve the time of their starts.

A Storm runs lostack's Trident topology on a broker until one record is in its state: such a worker
has the classes of every other topology, too. The log writers have the class path of workers, and
share their archive.
"""

from __future__ import annotations

import os
import shutil
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import psutil

from harness.model import events as kinds
from harness.model.tail import SoFar
from harness.model.waiting import wait_until
from harness.provision.archive import dump_flag, ensure_archive, require_dumped
from harness.provision.cache import cache_root
from harness.provision.java import find_java
from harness.systems.kafka.exercise import send_records
from harness.systems.kafka.launcher import ProcessGround
from harness.systems.kafka.transport import KafkaTransport
from harness.systems.storm.cluster import (
    NIMBUS_NODE,
    SUPERVISOR_NODE,
    WORKER,
    WRITER,
    ZOOKEEPER,
    Cluster,
)
from harness.systems.storm.settings import TRIDENT_EXACTLY_ONCE
from harness.systems.storm.words import Place, words_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.provision.kafka import KafkaInstall
    from harness.systems.storm.install import StormInstall

ARCHIVES: Final = {
    WORKER: "classes.jsa",
    **{name: f"{name}.jsa" for name in (NIMBUS_NODE, SUPERVISOR_NODE, ZOOKEEPER)},
}
"""Node → the file of its archive. The workers' archive has the usual name; the others are beside
it.
"""
DONE_S: Final = 90.0
TO_DUMP_S: Final = 300
"""How long (seconds) an ending worker may take to write its archive before Storm kills it; minutes
on a busy machine.
"""


def with_archives(
    install: StormInstall, kafka: KafkaInstall, say: Callable[[str], None]
) -> StormInstall:
    """Return the installation with the flags of its archives, made at the first call; unchanged if
    that fails.
    """
    cache = cache_root()
    archive = ensure_archive(
        find_java(cache, say),
        (install.topology, *install.jars),
        cache=cache,
        say=say,
        recipe="storm",
        make=lambda _, __, folder: _exercise(kafka, install, folder),
    )
    if archive.path is None:
        return install
    path = archive.path
    flags = {
        name: replace(archive, path=path.with_name(file)).flags for name, file in ARCHIVES.items()
    }
    return replace(install, flags={**flags, WRITER: flags[WORKER]})


def _exercise(kafka: KafkaInstall, install: StormInstall, folder: Path) -> None:
    """Let a Storm run a topology, and leave the archives in ``folder``. Raises if a step fails."""
    archives = {name: folder / file for name, file in ARCHIVES.items()}
    work = folder / "work"
    work.mkdir()
    transport = KafkaTransport(ProcessGround(kafka), work)
    own = replace(install, flags={name: (dump_flag(path),) for name, path in archives.items()})
    cluster = Cluster(transport.runtime, own, work / "storm", shutdown_s=TO_DUMP_S)
    try:
        cluster.start()
        transport.start()
        transport.observer.create_topics({"in": (1, {}), "out": (1, {})})
        cluster.await_up()
        _work(cluster, transport, work)
        for name in (SUPERVISOR_NODE, NIMBUS_NODE, ZOOKEEPER):
            cluster.process(name).terminate(DONE_S)
    finally:
        cluster.close()
        transport.close()
    require_dumped(*archives.values())
    shutil.rmtree(work)


def _work(cluster: Cluster, transport: KafkaTransport, work: Path) -> None:
    """Run the topology until a record is in its state, and end its worker by SIGTERM."""
    place = Place(
        transport.direct,
        "in",
        "out",
        "archive",
        work,
        work / "none",
        "archive",
        transport.direct,
        (transport.runtime.bind, cluster.keeper_port),
    )
    cluster.submit("archive", words_of(place, TRIDENT_EXACTLY_ONCE, "archive"))
    so_far = SoFar(work)
    [said, *_] = wait_until(
        lambda: so_far.of(kinds.Ready), within_s=DONE_S, because="the archive's worker", poll_s=0.1
    )
    send_records(transport.direct)
    wait_until(
        lambda: transport.observer.ends("out")[0].stable > 0,
        within_s=DONE_S,
        because="the archive's record",
        poll_s=0.1,
    )
    worker = psutil.Process(said.pid)
    cluster.end("archive")
    os.kill(worker.pid, signal.SIGTERM)
    wait_until(
        lambda: not worker.is_running(),
        within_s=TO_DUMP_S,
        because="the archive's worker to end",
        poll_s=0.1,
    )
