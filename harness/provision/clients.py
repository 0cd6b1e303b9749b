"""Prepare what a client library needs to run in stage programs: a Python environment that holds it,
or a JVM beside them.
"""

from __future__ import annotations

import importlib.metadata
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from packaging.version import Version

from harness.model.cell import client_name
from harness.model.failures import EnvironmentFailure
from harness.provision.cache import cache_root
from harness.provision.compiled import compiled
from harness.provision.environments import ensure_client, packages
from harness.provision.janino import SOURCES, ensure_compiled, janino_path
from harness.provision.jars import LISTS, jars_of, read_jar_set, versions_of
from harness.provision.java import find_java
from harness.provision.java_program import JavaProgram
from harness.provision.kafka import VERSION, ensure_kafka
from harness.runtimes.interface import JAVA_IMAGE, PROGRAMS_IMAGE
from harness.stages.clients import AMQP, CORE, JAVA, OPENWIRE
from harness.stages.clients.bridge import COMMAND

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BRIDGE: Final = SOURCES / "ClientBridge.java"
SHARING: Final = SOURCES / "ShareBridge.java"
SHARES_SINCE: Final = Version("4.2")
"""The first version whose client supports share groups in their final form."""
JVM: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""The same JVM options as the brokers', so that their class-data archive fits."""
JAR_SET: Final = "kafka-clients-"
OURS: Final = "/opt/lostack"
"""The folder in which lostack's own images hold this package and its dependencies."""
JMS_BRIDGE: Final = SOURCES / "JmsBridge.java"
CALLS: Final = SOURCES / "Calls.java"
"""The source that all bridges to queue clients share."""
JMS: Final = {OPENWIRE: "5.18.6", AMQP: "1.11.0", CORE: "2.44.0"}
"""The JMS clients, each with its default version."""


@dataclass(frozen=True, slots=True)
class ClientSetup:
    """A client that is ready for use. ``python``: the interpreter of the client's own environment;
    ``None``: the runtime's.

    ``variables``: environment variables for the stage. ``image``: the container image that fits the
    client. ``folders``: the folders of this machine that the container must see.
    """

    version: str
    python: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    jvm: JavaProgram | None = None
    """The JVM that runs beside each stage."""
    image: str = PROGRAMS_IMAGE
    folders: tuple[Path, ...] = ()

    @classmethod
    def beside(cls, version: str, jvm: JavaProgram) -> ClientSetup:
        """Return the setup of a client that is a JVM beside each stage."""
        return cls(version, variables={COMMAND: json.dumps(jvm.command())}, jvm=jvm)

    def contained(self) -> ClientSetup:
        """Return the same setup for stages in containers. They see jars and packages at the same
        paths as this machine.
        """
        if self.jvm is not None:
            jvm = self.jvm.contained()
            return replace(self.beside(self.version, jvm), image=JAVA_IMAGE, folders=jvm.folders)
        if self.python is not None:
            own = packages(self.python)
            return replace(
                self, python=None, variables={"PYTHONPATH": f"{own}:{OURS}"}, folders=(own,)
            )
        return self


def prepare_client(client: str, say: Callable[[str], None]) -> ClientSetup:
    """Return the setup of a client (``name`` or ``name==version``), and fetch or make what is
    missing.

    Raises:
        EnvironmentFailure: something cannot be fetched or made.
    """
    name, version = client_name(client), client.partition("==")[2]
    if name == JAVA:
        return _java(version or VERSION, say)
    if name in JMS:
        return _jms(name, version or JMS[name], say)
    return (
        ClientSetup(version, ensure_client(client, say))
        if version
        else ClientSetup(importlib.metadata.version(name))
    )


def java_versions() -> list[str]:
    """Return the versions of the Java client whose checksums are known."""
    return sorted(
        {VERSION, *(file.stem.removeprefix(JAR_SET) for file in LISTS.glob(f"{JAR_SET}*.sha256"))}
    )


def known_versions(client: str) -> list[str] | None:
    """Return the versions of a client whose checksums are known; ``None`` for a Python package,
    whose versions the package index knows.
    """
    if client == JAVA:
        return java_versions()
    if client not in JMS:
        return None
    return list(versions_of(client))


def _java(version: str, say: Callable[[str], None]) -> ClientSetup:
    """Return the JVM with Kafka's Java client. The brokers' jars hold the client of the brokers'
    version.
    """
    if Version(version) == Version(VERSION):
        kafka = ensure_kafka(say)
        java, classpath, flags = kafka.java, kafka.classpath, kafka.jvm_flags
    else:
        java, classpath, flags = *_fetched(version, say), ()
    main, sources = BRIDGE, [BRIDGE]
    if Version(version) >= SHARES_SINCE:
        main, sources = SHARING, [BRIDGE, SHARING]
    known = f"kafka-clients {version}"
    for source in sources:
        jar = ensure_compiled(
            source,
            cache_root() / "bridges",
            java=java,
            against=classpath,
            known=known,
            janino=janino_path(),
        )
        classpath, known = f"{classpath}:{jar}", f"{known} {jar.stem}"
    jars = tuple(map(Path, classpath.split(":")))
    return ClientSetup.beside(
        version, JavaProgram(java, (*flags, *JVM), jars, f"lostack.{main.stem}")
    )


def _jms(name: str, version: str, say: Callable[[str], None]) -> ClientSetup:
    """Return the JVM with a protocol's JMS library. The bridge is compiled against the JMS API
    only.
    """
    java = find_java(cache_root(), say)
    jars = jars_of(read_jar_set(f"{name}-{version}"), java, say)
    bridge = compiled(
        "jms-bridge",
        [CALLS, JMS_BRIDGE],
        [jar for jar in jars if jar.name.startswith("jakarta.jms-api-")],
        say,
    )
    return ClientSetup.beside(
        version, JavaProgram(java.path, JVM, (bridge, *jars), f"lostack.{JMS_BRIDGE.stem}")
    )


def _fetched(version: str, say: Callable[[str], None]) -> tuple[Path, str]:
    known = next((one for one in java_versions() if Version(one) == Version(version)), None)
    if known is None:
        raise EnvironmentFailure(
            f"{JAVA}=={version}: the checksums of its jars are not known; known versions: "
            f"{', '.join(java_versions())}"
        )
    java = find_java(cache_root(), say)
    return java.path, ":".join(map(str, jars_of(read_jar_set(f"{JAR_SET}{known}"), java, say)))
