"""Install Storm: its jars, a Kafka client, a database driver and lostack's topology. Downloaded
once, checked by checksums.

Nimbus's metrics store in RocksDB is half of Storm's size and not used here, so it is left out.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.model.failures import EnvironmentFailure
from harness.provision.cache import cache_root
from harness.provision.compiled import compiled
from harness.provision.jars import jars_of, read_jar_set, versions_of
from harness.provision.java import find_java
from harness.provision.server import CONTROL
from harness.provision.spark import DRIVERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.provision.kafka import KafkaInstall

VERSION: Final = "2.8.3"
CLIENT: Final = "storm-kafka-client"
"""The client's name. ``==`` pins another version, which topologies then use with its own
kafka-clients on the same Storm.
"""
SOURCES: Final = Path(__file__).parent / "jvm"
ANY_CLIENT: Final = tuple(
    SOURCES / f"{name}.java" for name in ("Topology", "Ledger", "Failpoint", "Losing", "Submission")
)
"""The sources that compile against other clients, too. Trident's are not among them: its spouts had
other classes.
"""
DESK: Final = "lostack.Desk"


@dataclass(frozen=True, slots=True)
class StormInstall:
    """An installed Storm, run by ``java -cp <a folder with storm.yaml>:jars <main class>``.
    ``topology``: the jar to submit.
    """

    java: Path
    jars: tuple[Path, ...]
    topology: Path
    versions: dict[str, str]
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Node → JVM flags for its class-data archive."""

    @property
    def classpath(self) -> str:
        """The class path. The topology comes first, so that workers do not load it from the
        submitted copy.
        """
        return os.pathsep.join(map(str, (self.topology, *self.jars)))


def ensure_storm(kafka: KafkaInstall, say: Callable[[str], None]) -> StormInstall:
    """Return Storm; download and compile it at the first call. Safe in several runs at once.

    Raises:
        EnvironmentFailure: something is missing; the message is one line that says what to do.
    """
    java = find_java(cache_root(), say)
    [client] = (
        path
        for path in map(Path, kafka.classpath.split(":"))
        if path.name.startswith("kafka-clients-")
    )
    jars = (
        *jars_of(read_jar_set(f"storm-{VERSION}"), java, say),
        client,
        *jars_of(read_jar_set(DRIVERS["postgresql"]), java, say),
    )
    topology = compiled("storm-topology", [*sorted(SOURCES.glob("*.java")), CONTROL], jars, say)
    versions = {
        "storm": VERSION,
        "storm-kafka-client": VERSION,
        "storm-kafka-clients": client.stem.rpartition("-")[2],
    }
    return StormInstall(java.path, jars, topology, versions)


def client_versions() -> list[str]:
    """Return the versions to which the Kafka client of a topology can be pinned."""
    return list(versions_of(CLIENT))


def ensure_client(install: StormInstall, client: str, say: Callable[[str], None]) -> str:
    """Return the class path of topologies with a pinned Kafka client; download and compile it if
    the cache does not have it.

    Raises:
        EnvironmentFailure: the client has no known checksums, or cannot be downloaded.
    """
    known = client_versions()
    version = client.partition("==")[2]
    if version not in known:
        raise EnvironmentFailure(
            f"{client}: lostack has no checksums of this version; it has "
            f"{', '.join((*known, VERSION))}"
        )
    own = jars_of(read_jar_set(f"{CLIENT}-{version}"), find_java(cache_root(), say), say)
    others = (
        jar for jar in install.jars if not jar.name.startswith((f"{CLIENT}-", "kafka-clients-"))
    )
    jars = (*own, *others)
    return os.pathsep.join(map(str, (compiled("storm-topology", ANY_CLIENT, jars, say), *jars)))
