"""Fetch and prepare everything that a Kafka broker needs to run as a process of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.provision.archive import ensure_archive
from harness.provision.cache import cache_root
from harness.provision.jars import jars_of, read_jar_set, versions_of
from harness.provision.java import find_java

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VERSION: Final = "4.4.0"


@dataclass(frozen=True, slots=True)
class KafkaInstall:
    """How to run Kafka: ``java *jvm_flags -cp classpath kafka.Kafka …``."""

    java: Path
    classpath: str
    jvm_flags: tuple[str, ...]
    version: str
    java_version: str


def kafka_versions() -> tuple[str, ...]:
    """Return the versions whose checksums are known."""
    return versions_of("kafka")


def ensure_kafka(progress: Callable[[str], None], version: str = VERSION) -> KafkaInstall:
    """Return Kafka. The first run fetches and prepares it; later calls take a tenth of a second.

    ``progress`` shows what is being done, one line for each call. Several runs may call this at
    once.

    Raises:
        EnvironmentFailure: something is missing. The message is one line and says what helps.
    """
    cache = cache_root()
    java = find_java(cache, progress)
    jars = jars_of(read_jar_set(f"kafka-{version}"), java, progress)
    archive = ensure_archive(java, jars, cache=cache, say=progress)
    classpath = ":".join(str(jar) for jar in jars)
    return KafkaInstall(java.path, classpath, archive.flags, version, java.version)
