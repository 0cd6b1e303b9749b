"""Install Kafka Streams: the jars of Kafka and of Kafka Streams, lostack's program, and a
class-data archive of them.
"""

from __future__ import annotations

import shutil
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.model.failures import EnvironmentFailure
from harness.model.waiting import wait_until
from harness.provision.archive import JVM, dump_flag, ensure_archive, require_dumped
from harness.provision.cache import cache_root, fill, locked
from harness.provision.compiled import compiled
from harness.provision.jars import jars_of, read_jar_set, versions_of
from harness.provision.java import find_java
from harness.runtimes.interface import NodeSpec
from harness.systems.kafka.exercise import send_records
from harness.systems.kafka.launcher import ProcessGround
from harness.systems.kafka.transport import KafkaTransport
from harness.systems.streams.settings import Guarantee

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.provision.kafka import KafkaInstall

VERSION: Final = "4.4.0"
CLIENT: Final = "kafka-streams"
SOURCE: Final = Path(__file__).with_name("StreamsStage.java")
MAIN: Final = "lostack.StreamsStage"
LIBRARY: Final = "librocksdbjni-linux64.so"
DONE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class StreamsInstall:
    """An installed Kafka Streams; :meth:`command` runs an instance."""

    version: str
    java: Path
    jars: tuple[Path, ...]
    flags: tuple[str, ...]
    """JVM flags for the class-data archive and for RocksDB's unpacked library."""

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of its jars."""
        return tuple(dict.fromkeys(jar.parent for jar in self.jars))

    def contained(self) -> StreamsInstall:
        """Return the installation for containers: with the image's Java, without archive and
        unpacked library.
        """
        return replace(self, java=Path("java"), flags=())

    def command(self, scratch: Path, words: Mapping[str, object], *flags: str) -> tuple[str, ...]:
        """Return the command of an instance. ``scratch``: a folder for temporary files; ``words``:
        the program's arguments.
        """
        java = (str(self.java), *flags, *self.flags, *JVM, f"-Djava.io.tmpdir={scratch.absolute()}")
        said = (
            f"{name}={str(word).lower() if isinstance(word, bool) else word}"
            for name, word in words.items()
        )
        return (*java, "-cp", ":".join(map(str, self.jars)), MAIN, *said)


def versions() -> tuple[str, ...]:
    """Return the versions whose checksums are known."""
    return versions_of(CLIENT)


def ensure_streams(
    kafka: KafkaInstall, say: Callable[[str], None], version: str = VERSION
) -> StreamsInstall:
    """Return Kafka Streams; download, compile and prepare it at the first call.

    ``version``: a version with known checksums. The default version uses the jars of ``kafka``;
    others bring their own.

    Raises:
        EnvironmentFailure: something can be neither downloaded nor compiled.
    """
    cache = cache_root()
    java = find_java(cache, say)
    own = jars_of(read_jar_set(f"{CLIENT}-{version}"), java, say)
    around = (*(map(Path, kafka.classpath.split(":")) if version == VERSION else ()), *own)
    jars = (*around, compiled("streams", [SOURCE], around, say))
    bare = StreamsInstall(version, java.path, jars, _unpacked(own[0].parent, cache, say))
    if version != VERSION:
        return bare
    archive = ensure_archive(
        java,
        jars,
        cache=cache,
        say=say,
        make=lambda _, __, folder: _exercise(kafka, bare, folder),
        recipe="streams",
    )
    return replace(bare, flags=(*archive.flags, *bare.flags))


def _unpacked(fetched: Path, cache: Path, say: Callable[[str], None]) -> tuple[str, ...]:
    """Unpack RocksDB's library once: otherwise every JVM unpacks it, and a killed JVM leaves 15 MB
    behind.
    """
    folder = cache / "compiled" / f"{fetched.name}-library"

    def make(part: Path) -> None:
        with zipfile.ZipFile(next(fetched.glob("rocksdbjni-*.jar"))) as jar:
            jar.extract(LIBRARY, part)

    with locked(folder, say):
        if not (folder / LIBRARY).exists():
            fill(folder, make)
    return (f"-Djava.library.path={folder}",)


def _exercise(kafka: KafkaInstall, install: StreamsInstall, folder: Path) -> None:
    """Let an instance do some work on a broker, and leave ``classes.jsa`` in ``folder``. Raises if
    a step fails.
    """
    archive, work = folder / "classes.jsa", folder / "work"
    work.mkdir()
    transport = KafkaTransport(ProcessGround(kafka), work)
    try:
        transport.start()
        transport.observer.create_topics({"in": (1, {}), "out": (1, {})})
        words = {
            **told_all(
                transport.direct, "archive", "archive", Guarantee.EXACTLY_ONCE_V2, work / "state"
            ),
            "stage.topology": "count",
            "stage.in": "in",
            "stage.out": "out",
            "stage.cell": "archive",
            "stage.by": "archive",
            "stage.history": work,
            "stage.failpoints": work,
            "stage.each": True,
        }
        command = install.command(work, words, dump_flag(archive))
        node = transport.runtime.start(NodeSpec("archive-streams", "streams", command))
        send_records(transport.direct, 3)

        def done() -> bool:
            if not node.alive:
                raise EnvironmentFailure(
                    f"the archive's instance ended ({node.exit}): {node.log_tail(1)}"
                )
            return transport.observer.ends("out")[0].stable > 0

        wait_until(
            done, within_s=DONE_S, because="the archive's instance to do its work", poll_s=0.1
        )
        node.terminate(DONE_S)
    finally:
        transport.close()
    require_dumped(archive)
    shutil.rmtree(work)


def told_all(
    servers: str, group: str, client: str, guarantee: Guarantee, state: Path
) -> dict[str, object]:
    """Return the settings of every instance of Kafka Streams."""
    return {
        "bootstrap.servers": servers,
        "application.id": group,
        "client.id": client,
        "processing.guarantee": guarantee,
        "state.dir": state.absolute(),
        "num.stream.threads": 1,
        "replication.factor": 1,
        "statestore.cache.max.bytes": 0,
        "enable.metrics.push": False,
        "retry.backoff.ms": 50,
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 200,
        "consumer.auto.offset.reset": "earliest",
    }
