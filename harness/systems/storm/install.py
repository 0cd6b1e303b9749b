"""What a Storm is started from: its jars, Kafka's client, a database's driver, and our topology. Fetched once, checked by sums.

The store of metrics that Nimbus keeps in RocksDB is half of a Storm's bytes, and nobody asks it here: it is left out.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.model.failures import EnvironmentFailure
from harness.provision.cache import cache_root
from harness.provision.compiled import compiled
from harness.provision.jars import LISTS, ensure_jars, read_jar_set
from harness.provision.java import find_java
from harness.provision.server import CONTROL
from harness.provision.spark import DRIVERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.provision.kafka import KafkaInstall

VERSION: Final = "2.8.3"
CLIENT: Final = "storm-kafka-client"
"""One of another version is pinned by ``==``: its topologies have it, and the kafka-clients of its list, on a Storm of ours."""
SOURCES: Final = Path(__file__).parent / "jvm"
ANY_CLIENT: Final = tuple(SOURCES / f"{name}.java" for name in ("Topology", "Ledger", "Failpoint", "Losing", "Submission"))
"""What is compiled for another client: Trident's spouts were other classes once."""
DESK: Final = "lostack.Desk"


@dataclass(frozen=True, slots=True)
class StormInstall:
    """How to run Storm: ``java -cp <a folder with storm.yaml>:jars <a main class of it>``. ``topology`` is what is submitted."""

    java: Path
    jars: tuple[Path, ...]
    topology: Path
    versions: dict[str, str]
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What each JVM is told of its class-data archive, by the name of its process."""

    @property
    def classpath(self) -> str:
        """All of it; the topology is in front, so that no worker takes it from the copy that was submitted."""
        return os.pathsep.join(map(str, (self.topology, *self.jars)))


def ensure_storm(kafka: KafkaInstall, say: Callable[[str], None]) -> StormInstall:
    """Return Storm, fetched and compiled for where this is the first run. Safe in several runs at once.

    Raises:
        EnvironmentFailure: something is missing; one line that says what helps.
    """
    cache = cache_root()
    java = find_java(cache, say)
    own = read_jar_set(f"storm-{VERSION}")
    folder = ensure_jars(own, cache=cache, java=java, say=say)
    [client] = (path for path in map(Path, kafka.classpath.split(":")) if path.name.startswith("kafka-clients-"))
    driver = read_jar_set(DRIVERS["postgresql"])
    beside = ensure_jars(driver, cache=cache, java=java, say=say)
    jars = (*(folder / name for name in sorted(own.sums)), client, *(beside / name for name in sorted(driver.sums)))
    topology = compiled("storm-topology", [*sorted(SOURCES.glob("*.java")), CONTROL], jars, say)
    versions = {"storm": VERSION, "storm-kafka-client": VERSION, "storm-kafka-clients": client.stem.rpartition("-")[2]}
    return StormInstall(java.path, jars, topology, versions)


def ensure_client(install: StormInstall, client: str, say: Callable[[str], None]) -> str:
    """Return the class path of topologies with a pinned client of Kafka, fetched and compiled for where it is not there yet.

    Raises:
        EnvironmentFailure: its sums are not known, or it cannot be fetched.
    """
    known = sorted(file.stem.removeprefix(f"{CLIENT}-") for file in LISTS.glob(f"{CLIENT}-*.sha256"))
    version = client.partition("==")[2]
    if version not in known:
        raise EnvironmentFailure(f"{client}: its sums are not known; what there is: {', '.join((*known, VERSION))}")
    cache = cache_root()
    own = read_jar_set(f"{CLIENT}-{version}")
    folder = ensure_jars(own, cache=cache, java=find_java(cache, say), say=say)
    others = (jar for jar in install.jars if not jar.name.startswith((f"{CLIENT}-", "kafka-clients-")))
    jars = (*(folder / name for name in sorted(own.sums)), *others)
    return os.pathsep.join(map(str, (compiled("storm-topology", ANY_CLIENT, jars, say), *jars)))
