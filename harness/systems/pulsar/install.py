"""Install Pulsar standalone and its Java client: 143 MB of jars, downloaded when needed and checked
by checksums.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.provision.cache import cache_root
from harness.provision.clients import CALLS, ClientSetup
from harness.provision.compiled import compiled
from harness.provision.jars import jars_of, read_jar_set, versions_of
from harness.provision.java import find_java
from harness.provision.java_program import JavaProgram

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.provision.java import Java

HERE: Final = Path(__file__).parent
BRIDGE: Final = HERE.parents[1] / "stages" / "jvm" / "PulsarBridge.java"
NAME: Final = "pulsar"
VERSION: Final = "4.2.4"
MAIN: Final = "org.apache.pulsar.PulsarStandaloneStarter"
BRIDGE_MAIN: Final = "lostack.PulsarBridge"
_OPENED: Final = (
    "java.base/sun.net",
    "java.base/java.lang",
    "java.base/java.nio",
    "java.base/jdk.internal.misc",
    "java.base/java.util.zip",
    "java.base/jdk.internal.platform",
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
)
JVM: Final = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
    "-Dio.netty.tryReflectionSetAccessible=true",
)
SERVER: Final = ("-Xmx512m", "-XX:MaxDirectMemorySize=384m")
CLIENT: Final = ("-Xmx128m", "-XX:MaxDirectMemorySize=64m")


@dataclass(frozen=True, slots=True)
class Install:
    """An installed Pulsar. ``flags``: JVM flags for each process, such as for the class-data
    archive ``archive``.
    """

    java: Java
    jars: tuple[Path, ...]
    version: str
    flags: tuple[str, ...] = ()
    archive: Path | None = None

    @property
    def server(self) -> JavaProgram:
        """The broker's program, which takes ``--config …``."""
        return JavaProgram(
            self.java.path, (*self.flags, *JVM, *SERVER), self.jars, MAIN, self.archive
        )

    def client(self, say: Callable[[str], None]) -> ClientSetup:
        """Return the Java client: a JVM that runs beside the stage.

        Raises:
            EnvironmentFailure: the client can be neither downloaded nor compiled.
        """
        ours = compiled("pulsar-bridge", [CALLS, BRIDGE], self.jars, say)
        jvm = JavaProgram(
            self.java.path,
            (*self.flags, *JVM, *CLIENT),
            (*self.jars, ours),
            BRIDGE_MAIN,
            self.archive,
        )
        return ClientSetup.beside(self.version, jvm)


def versions() -> tuple[str, ...]:
    """Return the versions with known checksums."""
    return versions_of(NAME, HERE)


def ensure(say: Callable[[str], None], version: str = VERSION) -> Install:
    """Return a version; download it if the cache does not have it.

    Raises:
        EnvironmentFailure: the version cannot be downloaded; the message is one line.
    """
    java = find_java(cache_root(), say)
    return Install(java, jars_of(read_jar_set(f"{NAME}-{version}", HERE), java, say), version)
