"""What a server is started from that is made of jars: checked by their sums, with a main class of ours, compiled once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from packaging.version import Version

from harness.provision.cache import cache_root
from harness.provision.compiled import compiled
from harness.provision.jars import ensure_jars, read_jar_set
from harness.provision.java import find_java
from harness.provision.java_program import JavaProgram

if TYPE_CHECKING:
    from collections.abc import Callable

CONTROL: Final = Path(__file__).parent / "ControlPort.java"
"""By what a server of ours is asked."""
QUEUES: Final = Path(__file__).parent / "Queues.java"
"""What every broker of queues does with the words of its command line, and answers there."""
JVM: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")


@dataclass(frozen=True, slots=True)
class Recipe:
    """Which jars, and what of ours. Beside ``source`` stands a list of jars for each version, ``<name>-<version>.sha256``."""

    name: str
    version: str
    """The one that is taken where none is named."""
    source: Path
    """The file in Java."""
    main: str
    """Its class."""
    beside: tuple[str, ...] = ()
    """Protocols whose jars are a list of their own, ``<protocol>-<version>.sha256``; without one a version does not speak it."""

    def versions(self) -> tuple[str, ...]:
        """Return the versions whose sums are known."""
        files = self.source.parent.glob(f"{self.name}-*.sha256")
        return tuple(sorted((file.stem.removeprefix(f"{self.name}-") for file in files), key=Version))

    def lists(self, version: str) -> dict[str, str]:
        """Return the protocols of a version that are beside it, and their lists of jars."""
        names = {protocol: f"{protocol}-{version}" for protocol in self.beside}
        return {protocol: name for protocol, name in names.items() if (self.source.parent / f"{name}.sha256").exists()}

    def ensure(self, say: Callable[[str], None], version: str | None = None) -> Install:
        """Return a version, fetched and compiled where it is not there yet.

        Raises:
            EnvironmentFailure: the version cannot be fetched or compiled; one line.
        """
        cache, version = cache_root(), version or self.version
        java = find_java(cache, say)
        jar_set = read_jar_set(f"{self.name}-{version}", self.source.parent)
        folder = ensure_jars(jar_set, cache=cache, java=java, say=say)
        jars = [folder / name for name in sorted(jar_set.sums)]
        ours = compiled(jar_set.name, [self.source, QUEUES, CONTROL], jars, say)
        for name in self.lists(version).values():
            more = read_jar_set(name, self.source.parent)
            folder = ensure_jars(replace(more, name=f"{self.name}-{name}"), cache=cache, java=java, say=say)
            jars += [folder / jar for jar in sorted(more.sums)]
        program = JavaProgram(java.path, JVM, (ours, *jars), self.main)
        return Install(program, version, java.version, tuple(self.lists(version)))


@dataclass(frozen=True, slots=True)
class Install:
    """What it is run by."""

    program: JavaProgram
    version: str
    java_version: str
    beside: tuple[str, ...] = ()
    """The protocols that it speaks beside its own."""
