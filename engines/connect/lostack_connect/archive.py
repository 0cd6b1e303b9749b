"""The class-data archive of workers: with it a worker starts in half the time.

A worker makes it, which has no connector, and is shut down in order when it answers. What is in a
plugin folder has a class loader of its own, and comes into no archive.
"""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING, Final

from harness.model.failures import EnvironmentFailure
from harness.model.waiting import wait_until
from harness.provision.archive import dump_flag, ensure_archive, require_dumped
from harness.provision.cache import cache_root
from harness.provision.jars import ensure_jars, read_jar_set
from harness.provision.java import find_java
from harness.provision.kafka import ensure_kafka
from harness.runtimes.interface import NodeSpec
from harness.runtimes.ports import PortLease
from harness.systems.kafka.launcher import ProcessGround
from harness.systems.kafka.transport import KafkaTransport
from lostack_connect.install import ARCHIVE, VERSION, ConnectInstall
from lostack_connect.rest import WorkerApi
from lostack_connect.words import launched_words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from harness.provision.java import Java
    from harness.provision.kafka import KafkaInstall

UP_S: Final = 60.0
ENDS_S: Final = 60.0


def ensure_worker_archive(say: Callable[[str], None], kafka: str, version: str = VERSION) -> None:
    """Make the archive, unless it is there. ``kafka``: the version of the broker on which it is
    made; ``version``: of Kafka Connect.

    Raises:
        EnvironmentFailure: Java, Kafka or Kafka Connect cannot be had.
    """
    java = find_java(cache_root(), say)
    jar_set = read_jar_set(f"connect-{version}")
    folder = ensure_jars(jar_set, cache=cache_root(), java=java, say=say)
    ensure_archive(
        java,
        [folder / name for name in sorted(jar_set.sums)],
        cache=cache_root(),
        say=say,
        make=partial(_exercise, ensure_kafka(say, kafka), version),
        recipe=ARCHIVE,
    )


def _exercise(
    kafka: KafkaInstall, version: str, java: Java, jars: Sequence[Path], folder: Path
) -> None:
    """Let a worker do some work on a broker, and leave ``classes.jsa`` in ``folder``. Raises if a
    step fails.
    """
    archive, work = folder / "classes.jsa", folder / "work"
    work.mkdir()
    transport = KafkaTransport(ProcessGround(kafka), work)
    try:
        transport.start()
        with PortLease(1) as lease:
            told = launched_words(
                {},
                bootstrap=transport.direct,
                cluster="archive",
                port=lease.port,
                plugins="",
            )
            install = ConnectInstall(version, java.path, tuple(jars), (dump_flag(archive),))
            command = install.command(told, work, work)
            node = transport.runtime.start(NodeSpec("archive-worker", "worker", command))

            def is_up() -> bool:
                if not node.alive:
                    raise EnvironmentFailure(
                        f"the archive's worker ended ({node.exit}): {node.log_tail(1)}"
                    )
                return WorkerApi(lease.port).up()

            wait_until(is_up, within_s=UP_S, because="the archive's worker to answer", poll_s=0.2)
            node.terminate(ENDS_S)
    finally:
        transport.close()
    require_dumped(archive)
    shutil.rmtree(work)
