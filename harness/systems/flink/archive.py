"""Make the class-data archives of the JobManager and the TaskManager, which halve the time of their
starts.

A cluster runs lostack's job on a broker: through a checkpoint, cancelled, and once more with its
state.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.model.waiting import wait_until
from harness.provision.archive import dump_flag, ensure_archive, require_dumped
from harness.provision.cache import cache_root
from harness.provision.java import find_java
from harness.systems.flink.cluster import Cluster
from harness.systems.flink.settings import FLINK_EXACTLY_ONCE
from harness.systems.flink.words import CHECKPOINTS, Place, words_of
from harness.systems.kafka.exercise import send_records
from harness.systems.kafka.launcher import ProcessGround
from harness.systems.kafka.transport import KafkaTransport

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.provision.kafka import KafkaInstall
    from harness.systems.flink.install import FlinkInstall

TASK_MANAGER: Final = "task-manager.jsa"
"""The file of the TaskManager's archive, beside the JobManager's, which has the usual name."""
DONE_S: Final = 60.0
POLL_S: Final = 0.5


def with_archives(
    install: FlinkInstall, kafka: KafkaInstall, say: Callable[[str], None]
) -> FlinkInstall:
    """Return the installation with the flags of its archives, made at the first call; unchanged if
    that fails.
    """
    cache = cache_root()
    jars = tuple(map(Path, (*install.classpath.split(os.pathsep), str(install.services))))
    archive = ensure_archive(
        find_java(cache, say),
        jars,
        cache=cache,
        say=say,
        recipe="flink",
        make=lambda _, __, folder: _exercise(kafka, install, folder),
    )
    if archive.path is None:
        return install
    beside = replace(archive, path=archive.path.with_name(TASK_MANAGER))
    return replace(install, job_manager=archive.flags, task_manager=beside.flags)


def _exercise(kafka: KafkaInstall, install: FlinkInstall, folder: Path) -> None:
    """Let a cluster run the job, and leave both archives in ``folder``. Raises if a step fails."""
    archives = folder / "classes.jsa", folder / TASK_MANAGER
    flags = ((dump_flag(archive),) for archive in archives)
    work = folder / "work"
    work.mkdir()
    transport = KafkaTransport(ProcessGround(kafka), work)
    own = replace(install, job_manager=next(flags), task_manager=next(flags))
    cluster = Cluster(transport.runtime, own, work / "flink", work)
    try:
        cluster.start()
        transport.start()
        transport.observer.create_topics(
            {"in": (FLINK_EXACTLY_ONCE.topic.partitions, {}), "out": (1, {})}
        )
        _work(cluster, transport, work)
        for node in (cluster.task_manager("task-manager-1"), cluster.job_manager):
            node.terminate(DONE_S)
    finally:
        cluster.close()
        transport.close()
    require_dumped(*archives)
    shutil.rmtree(work)


def _work(cluster: Cluster, transport: KafkaTransport, work: Path) -> None:
    """Run the job twice, the second time with the state of the first; each time until its record is
    committed.
    """
    place = Place(
        "archive",
        work,
        transport.direct,
        "in",
        "out",
        "archive",
        work / CHECKPOINTS,
        work / "none",
        "archive",
    )
    restored_from: str | None = None
    for number in range(1, 3):
        words = words_of(place, FLINK_EXACTLY_ONCE, name=f"job-{number}", client="archive")
        job = cluster.submit(words, restored_from)
        wait_until(
            partial(_is, cluster, job, "RUNNING"),
            within_s=DONE_S,
            because="the archive's job to run",
            poll_s=POLL_S,
        )
        send_records(transport.direct)
        wait_until(
            partial(_committed, cluster, transport, job, number),
            within_s=DONE_S,
            because="the archive's record",
            poll_s=POLL_S,
        )
        cluster.rest.cancel(job)
        wait_until(
            partial(_is, cluster, job, "CANCELED"),
            within_s=DONE_S,
            because="the archive's job to end",
            poll_s=POLL_S,
        )
        restored_from = str(max((work / CHECKPOINTS).absolute().glob(f"{job}/chk-*")))


def _is(cluster: Cluster, job: str, state: str) -> bool:
    return cluster.rest.state(job) == state


def _committed(cluster: Cluster, transport: KafkaTransport, job: str, number: int) -> bool:
    """Whether ``number`` records are committed in the sink; first request a checkpoint, which
    commits them.
    """
    cluster.rest.trigger(job)
    return sum(copy.visible for copy in transport.observer.copies("out")) >= number
