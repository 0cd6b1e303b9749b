"""Prepare a server that consists of jars: its jars are checked by their checksums, and lostack's
main class is compiled once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.provision.cache import cache_root
from harness.provision.compiled import compiled
from harness.provision.jars import jars_of, read_jar_set, versions_of
from harness.provision.java import find_java
from harness.provision.java_program import JavaProgram

if TYPE_CHECKING:
    from collections.abc import Callable

CONTROL: Final = Path(__file__).parent / "ControlPort.java"
"""The source by which lostack's servers answer requests of the harness."""
QUEUES: Final = Path(__file__).parent / "Queues.java"
"""The source that all queue brokers share: it reads the command line, and answers requests on
standard input.
"""
JVM: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")


@dataclass(frozen=True, slots=True)
class Recipe:
    """A server's jars and lostack's main class. Beside ``source`` is a list of jars per version,
    ``<name>-<version>.sha256``.
    """

    name: str
    version: str
    """The default version."""
    source: Path
    """The Java file of lostack's main class."""
    main: str
    """The name of the main class."""
    beside: tuple[str, ...] = ()
    """Protocols with their own jar list, ``<protocol>-<version>.sha256``. A version without that
    list does not speak it.
    """

    def versions(self) -> tuple[str, ...]:
        """Return the versions whose checksums are known."""
        return versions_of(self.name, self.source.parent)

    def lists(self, version: str) -> dict[str, str]:
        """Return the additional protocols of a version, each with the name of its jar list."""
        names = {protocol: f"{protocol}-{version}" for protocol in self.beside}
        return {
            protocol: name
            for protocol, name in names.items()
            if (self.source.parent / f"{name}.sha256").exists()
        }

    def ensure(self, say: Callable[[str], None], version: str | None = None) -> Install:
        """Return a version; fetch and compile it if it is missing.

        Raises:
            EnvironmentFailure: the version cannot be fetched or compiled. The message is one line.
        """
        version = version or self.version
        java = find_java(cache_root(), say)
        jar_set = read_jar_set(f"{self.name}-{version}", self.source.parent)
        jars = [*jars_of(jar_set, java, say)]
        ours = compiled(jar_set.name, [self.source, QUEUES, CONTROL], jars, say)
        for name in self.lists(version).values():
            more = read_jar_set(name, self.source.parent)
            jars += jars_of(replace(more, name=f"{self.name}-{name}"), java, say)
        program = JavaProgram(java.path, JVM, (ours, *jars), self.main)
        return Install(program, version, java.version, tuple(self.lists(version)))


@dataclass(frozen=True, slots=True)
class Install:
    """A server that is ready to be started."""

    program: JavaProgram
    version: str
    java_version: str
    beside: tuple[str, ...] = ()
    """The protocols that it speaks besides its own."""
