"""Install Kafka Connect: a worker's jars, and lostack's two connectors, compiled."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.provision.archive import JVM, find_archive
from harness.provision.cache import cache_root
from harness.provision.compiled import compiled
from harness.provision.jars import jars_of, read_jar_set, versions_of
from harness.provision.java import find_java
from harness.provision.properties import properties_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.provision.java import Java

VERSION: Final = "4.3.0"
HERE: Final = Path(__file__).parent
MAIN: Final = "org.apache.kafka.connect.cli.ConnectDistributed"
SERVICES: Final = {
    "org.apache.kafka.connect.source.SourceConnector": "lostack.connect.OutboxSource",
    "org.apache.kafka.connect.sink.SinkConnector": "lostack.connect.RowSink",
    "org.apache.kafka.connect.transforms.Transformation": "lostack.connect.RowSink$Refusal",
}
"""With these a worker need not look for connectors in all jars, which takes it two seconds."""
ARCHIVE: Final = "connect"
"""The recipe of the class-data archive of workers."""
DATABASE: Final = "sqlite-jdbc-3.50.3.0"
LOGGING: Final = """rootLogger.level=WARN
rootLogger.appenderRef.out.ref=out
logger.connect.name=org.apache.kafka.connect.runtime
logger.connect.level=INFO
logger.rest.name=org.apache.kafka.connect.runtime.rest
logger.rest.level=WARN
logger.plugins.name=org.apache.kafka.connect.runtime.isolation
logger.plugins.level=WARN
logger.debezium.name=io.debezium
logger.debezium.level=INFO
appender.out.name=out
appender.out.type=CONSOLE
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d{HH:mm:ss,SSS} %-5p %c{1} %m%n
"""
"""Where Debezium goes on it says at INFO alone."""


@dataclass(frozen=True, slots=True)
class ConnectInstall:
    """An installed Kafka Connect; :meth:`command` runs a worker."""

    version: str
    java: Path
    jars: tuple[Path, ...]
    flags: tuple[str, ...] = ()
    """The JVM's flags for a class-data archive."""

    def command(
        self, properties: Mapping[str, str], folder: Path, temporary: Path
    ) -> tuple[str, ...]:
        """Return the command of a worker. What it is told, and how it logs, stands in files in
        ``folder`` from now on; its temporary files go into ``temporary``.
        """
        told, logging = folder / "worker.properties", folder / "log4j2.properties"
        told.write_text(properties_file(properties))
        logging.write_text(LOGGING)
        flags = (f"-Djava.io.tmpdir={temporary}", f"-Dlog4j2.configurationFile={logging}")
        return (
            *(str(self.java), *self.flags, *JVM, *flags),
            *("-cp", ":".join(map(str, self.jars)), MAIN, str(told)),
        )


def archive_flags(java: Java, jars: Sequence[Path]) -> tuple[str, ...]:
    """Return the JVM's flags for the archive of these jars, if it is there."""
    known = find_archive(java, jars, cache=cache_root(), recipe=ARCHIVE)
    return known.flags if known else ()


def versions() -> tuple[str, ...]:
    """Return the versions whose checksums are known."""
    return versions_of("connect")


def ensure_connect(say: Callable[[str], None], version: str = VERSION) -> ConnectInstall:
    """Return Kafka Connect; fetch and compile it at the first call.

    Raises:
        EnvironmentFailure: something can be neither fetched nor compiled.
    """
    java = find_java(cache_root(), say)
    sets = (read_jar_set(f"connect-{version}"), read_jar_set(DATABASE))
    fetched = tuple(jar for each in sets for jar in jars_of(each, java, say))
    ours = compiled("connect", sorted((HERE / "jvm").glob("*.java")), fetched, say, SERVICES)
    flags = archive_flags(java, fetched[: len(sets[0].sums)])
    return ConnectInstall(version, java.path, (*fetched, ours), flags)
