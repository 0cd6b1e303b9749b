"""What a broker of ActiveMQ Classic is started from: jars checked by their sums, and a main class of ours, compiled once."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from packaging.version import Version

from harness.provision.cache import cache_root
from harness.provision.compiled import compiled
from harness.provision.jars import ensure_jars, read_jar_set
from harness.provision.java import find_java

if TYPE_CHECKING:
    from collections.abc import Callable

HERE: Final = Path(__file__).parent
SOURCE: Final = HERE / "ClassicBroker.java"
MAIN: Final = "lostack.ClassicBroker"
NAME: Final = "activemq"
VERSION: Final = "6.3.1"
JVM: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")


@dataclass(frozen=True, slots=True)
class Install:
    """How to run a broker: ``*command <words of ClassicBroker>``."""

    command: tuple[str, ...]
    version: str
    java_version: str


def versions() -> tuple[str, ...]:
    """Return the versions whose sums are known."""
    return tuple(sorted((file.stem.removeprefix(f"{NAME}-") for file in HERE.glob(f"{NAME}-*.sha256")), key=Version))


def ensure(say: Callable[[str], None], version: str = VERSION) -> Install:
    """Return a version, fetched (7 MB) and compiled where it is not there yet. Raises EnvironmentFailure, one line."""
    cache = cache_root()
    java = find_java(cache, say)
    jar_set = read_jar_set(f"{NAME}-{version}", HERE)
    folder = ensure_jars(jar_set, cache=cache, java=java, say=say)
    jars = [folder / name for name in sorted(jar_set.sums)]
    ours = compiled(jar_set.name, [SOURCE], jars, say)
    path = os.pathsep.join(map(str, (ours, *jars)))
    return Install((str(java.path), *JVM, "-cp", path, MAIN), version, java.version)
