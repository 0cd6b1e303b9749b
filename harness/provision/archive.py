"""The class-data archive: the JVM's classes, parsed once, so that a broker starts in half the time.

A broker makes it: it starts, stores and delivers one record, and is shut down in order (Spark's is
made in :mod:`harness.provision.spark`). The archive fits one Java and one set of jars (by size and
time), and is keyed by both. It only saves time: if it cannot be made, everything works without it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
import time
import uuid
from base64 import urlsafe_b64encode
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.model.failures import EnvironmentFailure
from harness.model.waiting import wait_until
from harness.provision.cache import fill, locked, need_space
from harness.provision.properties import properties_file
from harness.runtimes.interface import NodeSpec
from harness.runtimes.ports import PortLease
from harness.runtimes.process import GuardianDiedError, ProcessRuntime

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from harness.provision.java import Java
    from harness.runtimes.interface import Node, Runtime

JVM: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""The brokers' JVM options. The archive is made with the same ones, because it must
fit their heap.
"""
NEEDED_MB: Final = 200
FORMAT_WITHIN_S: Final = 60.0
UP_WITHIN_S: Final = 60.0
RECORD_WITHIN_S: Final = 30.0
DUMPED_WITHIN_S: Final = 60.0
TRIED_AGAIN_S: Final = 3600.0
"""For how many seconds a failure is remembered. After that another attempt is made: the machine may
have been busy.
"""
QUIET: Final = ("-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")
"""Options that let the JVM ignore an archive that does not fit, without a warning in the broker's
log.
"""


@dataclass(frozen=True, slots=True)
class Archive:
    """The archive's file, or the reason why there is none."""

    path: Path | None
    because: str = ""

    @property
    def flags(self) -> tuple[str, ...]:
        """The options for ``java`` that use the archive; empty if there is none."""
        return () if self.path is None else (f"-XX:SharedArchiveFile={self.path}", *QUIET)


def dump_flag(path: Path) -> str:
    """Return the option that lets a JVM write its archive to ``path`` when it shuts
    down in order.
    """
    return f"-XX:ArchiveClassesAtExit={path}"


def require_dumped(*paths: Path) -> None:
    """Make sure that JVMs have written these archives.

    Raises:
        EnvironmentFailure: one is missing or empty.
    """
    for path in paths:
        if not path.exists() or not path.stat().st_size:
            raise EnvironmentFailure(f"the JVM wrote no archive {path.name}")


def archive_key(java: Java, jars: Sequence[Path], recipe: str = "") -> str:
    """Return the key of an archive: it stands for a Java, a set of jars, and the recipe by which
    the archive is made.
    """
    stats = [(str(jar), jar.stat().st_size, jar.stat().st_mtime_ns) for jar in jars]
    text = json.dumps([str(java.path), java.about, stats, *([recipe] if recipe else [])])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def find_archive(
    java: Java, jars: Sequence[Path], *, cache: Path, recipe: str = ""
) -> Archive | None:
    """Return the existing archive, or its recent failure; ``None`` if an attempt to
    make it is due.
    """
    directory = cache / "archives" / archive_key(java, jars, recipe)
    if (directory / "classes.jsa").exists():
        return Archive(directory / "classes.jsa")
    failure = directory / "failed"
    with suppress(FileNotFoundError):
        if time.time() - failure.stat().st_mtime < TRIED_AGAIN_S:
            return Archive(None, failure.read_text())
    return None


def ensure_archive(
    java: Java,
    jars: Sequence[Path],
    *,
    cache: Path,
    say: Callable[[str], None],
    make: Callable[[Java, Sequence[Path], Path], None] | None = None,
    recipe: str = "",
) -> Archive:
    """Return the archive, and make it if it has not been tried. A failure is shown once, remembered
    for an hour, and not fatal.

    Raises:
        GuardianDiedError: the guardian of the process that makes it died or does not answer, so
            nothing is known of the archive.
    """
    if known := find_archive(java, jars, cache=cache, recipe=recipe):
        return known
    directory = cache / "archives" / archive_key(java, jars, recipe)
    directory.parent.mkdir(exist_ok=True)
    with locked(directory, say):
        if known := find_archive(java, jars, cache=cache, recipe=recipe):
            return known
        say("making the class-data archive (about ten seconds, once)")
        try:
            need_space(directory.parent, NEEDED_MB, "the class-data archive")
            fill(directory, lambda part: (make or make_archive)(java, jars, part))
        except GuardianDiedError:
            raise
        except Exception as error:  # noqa: BLE001 - it only saves time; whatever is wrong with it, go without
            because = f"{type(error).__name__}: {error}".splitlines()[0]
            say(f"no class-data archive could be made ({because}); programs start more slowly")
            directory.mkdir(exist_ok=True)
            with suppress(OSError):  # a failure that a read-only cache remembers, too
                (directory / "failed").write_text(because)
    return find_archive(java, jars, cache=cache, recipe=recipe) or Archive(None, "it vanished")


def make_archive(java: Java, jars: Sequence[Path], directory: Path) -> None:
    """Run a broker once, so that it writes ``classes.jsa`` into ``directory``.

    Raises:
        Exception: a step failed.
    """
    archive = directory / "classes.jsa"
    work = directory / "work"
    work.mkdir()
    command = (str(java.path), *JVM, "-cp", ":".join(str(jar) for jar in jars))
    with PortLease(2) as lease, ProcessRuntime(directory=work) as runtime:
        config = work / "server.properties"
        config.write_text(_properties(work / "data", *lease.ports))
        _format(runtime, command, config)
        argv = (*command[:1], dump_flag(archive), *command[1:], "kafka.Kafka", str(config))
        node = runtime.start(NodeSpec("archive-broker", "broker", argv))
        wait_until(
            lambda: _up(node, lease.port),
            within_s=UP_WITHIN_S,
            because="the archive's broker to listen",
        )
        _one_record(lease.port)
        node.terminate(DUMPED_WITHIN_S)
    require_dumped(archive)
    shutil.rmtree(work)


def _properties(data: Path, port: int, controller: int) -> str:
    broker = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "log.dirs": str(data),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    return properties_file(broker)


def _format(runtime: Runtime, command: tuple[str, ...], config: Path) -> None:
    cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    words = ("kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", str(config))
    node = runtime.start(NodeSpec("archive-format", "tool", (*command, *words)))
    end = node.wait(FORMAT_WITHIN_S)
    if end is None or end.status != 0:
        raise EnvironmentFailure(f"the storage could not be formatted: {node.log_tail(1)}")


def _up(node: Node, port: int) -> bool:
    if not node.alive:
        raise EnvironmentFailure(f"the archive's broker ended ({node.exit}): {node.log_tail(1)}")
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _one_record(port: int) -> None:
    """Send and read one record, by a transaction and a consumer group, so that their classes are
    archived too.
    """
    from kafka import (  # noqa: PLC0415 - a quarter of a second
        KafkaConsumer,
        KafkaProducer,
        TopicPartition,
    )

    servers = f"127.0.0.1:{port}"
    producer = KafkaProducer(
        bootstrap_servers=servers,
        transactional_id="archive",
        max_block_ms=int(RECORD_WITHIN_S * 1000),
    )
    try:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("archive", b"record").get(RECORD_WITHIN_S)
        producer.commit_transaction()
    finally:
        producer.close(timeout=1)
    consumer = KafkaConsumer(
        bootstrap_servers=servers,
        group_id="archive",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    try:
        consumer.subscribe(["archive"])
        wait_until(
            lambda: consumer.poll(timeout_ms=200),
            within_s=RECORD_WITHIN_S,
            because="the archive's record",
        )
        consumer.commit()
        consumer.position(TopicPartition("archive", 0))
    finally:
        consumer.close()
