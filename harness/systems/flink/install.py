"""Install Flink: its jars, the Kafka connector, and lostack's job. Downloaded once and checked by
checksums.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.model.failures import EnvironmentFailure
from harness.provision.cache import cache_root
from harness.provision.compiled import compiled
from harness.provision.jars import LISTS, jars_of, read_jar_set
from harness.provision.java import find_java

if TYPE_CHECKING:
    from collections.abc import Callable

VERSION: Final = "2.3.0"
CLIENT: Final = "flink-connector-kafka"
CONNECTORS: Final = {VERSION: "5.0.0", "1.19.3": "3.3.0"}
"""Version of Flink → the default connector, which brings a kafka-clients."""
JVM: Final = Path(__file__).parent / "jvm"
MAIN: Final = "lostack.flink.Job"
SERVICES: Final = "lostack.flink.Stores$Factory"
"""The class of JobManager services with failpoints around the store of completed checkpoints."""
# those of the line env.java.opts.all in Flink's own conf/config.yaml
_OPENED: Final = (
    "java.lang",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.text",
    "java.time",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "java.util.concurrent.locks",
    "sun.nio.ch",
)
OPENS: Final = (
    "--add-exports=java.rmi/sun.rmi.registry=ALL-UNNAMED",
    "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
)


@dataclass(frozen=True, slots=True)
class FlinkInstall:
    """An installed Flink, run by ``java *OPENS -cp classpath <a main class of Flink> --configDir
    …``.

    ``job``: the jar to submit. ``services``: a further jar of the JobManager; ``None`` for Flink 1,
    whose interfaces differ.
    """

    java: Path
    classpath: str
    job: Path
    services: Path | None
    version: str
    """The version of Flink."""
    connector: str
    """The versions of the connector and its kafka-clients."""
    job_manager: tuple[str, ...] = ()
    """Further JVM flags of a JobManager, such as for its class-data archive."""
    task_manager: tuple[str, ...] = ()
    """Further JVM flags of a TaskManager."""

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of its jars, without the job's, which is uploaded."""
        jars = (*map(Path, self.classpath.split(os.pathsep)), self.services)
        return tuple(dict.fromkeys(jar.parent for jar in jars if jar))

    def contained(self) -> FlinkInstall:
        """Return the installation for containers: with the image's Java."""
        return replace(self, java=Path("java"))


def connectors(flink: str = VERSION) -> dict[str, str]:
    """Return the known connectors for a version of Flink: version → name of its list of jars.

    ``5.0.0+4.3.0`` is connector 5.0.0 with kafka-clients 4.3.0 instead of the version it was built
    with.
    """
    found = (
        file.stem.removeprefix(f"{CLIENT}-").rpartition("-")
        for file in LISTS.glob(f"{CLIENT}-*.sha256")
    )
    mine = sorted(
        (version, made_for)
        for version, _, made_for in found
        if made_for.partition(".")[0] == flink.partition(".")[0]
    )
    return {version: f"{CLIENT}-{version}-{made_for}" for version, made_for in mine}


def ensure_flink(
    say: Callable[[str], None], version: str = "", flink: str = VERSION
) -> FlinkInstall:
    """Return Flink with a connector; download and compile it at the first call. Safe in several
    runs at once.

    Raises:
        EnvironmentFailure: the connector is unknown; the message lists the known ones.
    """
    known, version = connectors(flink), version or CONNECTORS[flink]
    if version not in known:
        raise EnvironmentFailure(
            f"{CLIENT}=={version}: lostack has no checksums of this version; it has "
            f"{', '.join(known)}"
        )
    java = find_java(cache_root(), say)
    own, connector = read_jar_set(f"apache-flink-{flink}"), read_jar_set(known[version])
    jars = (*jars_of(own, java, say), *jars_of(connector, java, say))
    client = next(module.revision for module in connector.modules if module.name == "kafka-clients")
    first = flink.startswith("1.")
    job = [JVM / "Job.java", (JVM / "flink-1" if first else JVM) / "Sinks.java"]
    return FlinkInstall(
        java.path,
        os.pathsep.join(map(str, jars)),
        compiled("flink-job", job, jars, say),
        None if first else compiled("flink-services", [JVM / "Stores.java"], jars, say),
        flink,
        f"{version.partition('+')[0]} with kafka-clients {client}",
    )
