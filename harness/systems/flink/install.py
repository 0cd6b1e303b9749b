"""What a Flink is started from: its jars, the connector to Kafka, and our job. Fetched once, checked by sums."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.model.failures import EnvironmentFailure
from harness.provision.cache import cache_root
from harness.provision.compiled import compiled
from harness.provision.jars import LISTS, ensure_jars, read_jar_set
from harness.provision.java import find_java

if TYPE_CHECKING:
    from collections.abc import Callable

VERSION: Final = "2.3.0"
CLIENT: Final = "flink-connector-kafka"
CONNECTORS: Final = {VERSION: "5.0.0", "1.19.3": "3.3.0"}
"""By the versions of Flink that there are: the connector that is meant where none is named. It brings a kafka-clients."""
JVM: Final = Path(__file__).parent / "jvm"
MAIN: Final = "lostack.flink.Job"
SERVICES: Final = "lostack.flink.Stores$Factory"
"""The JobManager's own services, with failpoints around its store of completed checkpoints."""
# those of the line env.java.opts.all in Flink's own conf/config.yaml
_OPENED: Final = (
    "java.lang", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.text", "java.time", "java.util",
    "java.util.concurrent", "java.util.concurrent.atomic", "java.util.concurrent.locks", "sun.nio.ch",
)  # fmt: skip
OPENS: Final = (
    "--add-exports=java.rmi/sun.rmi.registry=ALL-UNNAMED", "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FlinkInstall:
    """How to run Flink: ``java *OPENS -cp classpath <a main class of Flink> --configDir …``.

    ``job`` is the jar to submit, and ``services`` the one that a JobManager has besides: none in Flink 1, whose are others.
    """

    java: Path
    classpath: str
    job: Path
    services: Path | None
    version: str
    """Of Flink."""
    connector: str
    """Its version, and that of the kafka-clients with it."""
    job_manager: tuple[str, ...] = ()
    """What a JobManager's JVM is told besides, as its class-data archive."""
    task_manager: tuple[str, ...] = ()
    """And a TaskManager's."""

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where what it needs lies; its job is handed over."""
        jars = (*map(Path, self.classpath.split(os.pathsep)), self.services)
        return tuple(dict.fromkeys(jar.parent for jar in jars if jar))

    def contained(self) -> FlinkInstall:
        """Return the same for a container: by the Java of its image."""
        return replace(self, java=Path("java"))


def connectors(flink: str = VERSION) -> dict[str, str]:
    """Return the lists of jars of the connectors for a Flink whose sums are known, by version.

    ``5.0.0+4.3.0`` is the connector 5.0.0 with kafka-clients 4.3.0 in the place of the ones that it was made with.
    """
    found = (file.stem.removeprefix(f"{CLIENT}-").rpartition("-") for file in LISTS.glob(f"{CLIENT}-*.sha256"))
    mine = sorted((version, made_for) for version, _, made_for in found if made_for.partition(".")[0] == flink.partition(".")[0])
    return {version: f"{CLIENT}-{version}-{made_for}" for version, made_for in mine}


def ensure_flink(say: Callable[[str], None], version: str = "", flink: str = VERSION) -> FlinkInstall:
    """Return Flink with a connector, fetched and compiled for where this is the first run. Safe in several runs at once.

    Raises:
        EnvironmentFailure: something is missing; one line that says what helps.
    """
    known, version = connectors(flink), version or CONNECTORS[flink]
    if version not in known:
        raise EnvironmentFailure(f"{CLIENT}=={version}: its sums are not known; what there is: {', '.join(known)}")
    cache = cache_root()
    java = find_java(cache, say)
    own, connector = read_jar_set(f"apache-flink-{flink}"), read_jar_set(known[version])
    folders = [(each, ensure_jars(each, cache=cache, java=java, say=say)) for each in (own, connector)]
    jars = tuple(folder / name for each, folder in folders for name in sorted(each.sums))
    client = next(module.revision for module in connector.modules if module.name == "kafka-clients")
    first = flink.startswith("1.")
    job = [JVM / "Job.java", (JVM / "flink-1" if first else JVM) / "Sinks.java"]
    return FlinkInstall(
        java.path, os.pathsep.join(map(str, jars)), compiled("flink-job", job, jars, say),
        None if first else compiled("flink-services", [JVM / "Stores.java"], jars, say),
        flink, f"{version.partition('+')[0]} with kafka-clients {client}",
    )  # fmt: skip
