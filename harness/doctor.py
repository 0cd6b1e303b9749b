"""``lostack doctor``: checks whether this machine has what lostack needs, and says how to get the
rest. It changes nothing.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import resource
import shutil
import sys
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from harness.model.extras import EXTRAS, lacks
from harness.model.failures import EnvironmentFailure
from harness.plugins import entry_points_of, packaged
from harness.provision import jre
from harness.provision.archive import find_archive
from harness.provision.cache import BESIDE, VARIABLE, cache_root, original
from harness.provision.inside_pyspark import pyspark_version
from harness.provision.jars import check_jars, read_jar_set
from harness.provision.java import WANTED, ask, candidates, find_java, how_to_install
from harness.provision.kafka import VERSION
from harness.provision.platforms import glibc, why_not_here
from harness.provision.postgres import find_postgres, why_no_postgres
from harness.provision.toxiproxy import VERSION as TOXIPROXY
from harness.provision.toxiproxy import find_toxiproxy, go_candidates
from harness.registry import real
from harness.runtimes.ports import PortLease
from harness.runtimes.process.durable import why_no_tracing
from harness.systems import GROUP, SYSTEMS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.provision.java import Java

DISK_MB = 2000
MEMORY_MB = 2000
FILES = 1024


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. ``remedy``: one command or sentence that says what to do; empty if
    all is well.
    """

    name: str
    ok: bool
    detail: str
    remedy: str = ""


def diagnose() -> list[Finding]:
    """Run every check (about a second: each jar's sha256 is compared, and one program
    is traced).
    """
    checks: tuple[Callable[[], Finding], ...] = (
        _python,
        _platform,
        _packages,
        _extras,
        _cache,
        _java,
        _jars,
        _archive,
        _connector,
        _toxiproxy,
        _postgres,
        _tracing,
        _disk,
        _memory,
        _ports,
        _open_files,
        _engine,
        _systems,
    )
    failed: dict[str, str] = {}
    return [_safely(check, failed) for check in checks]


def _safely(check: Callable[[], Finding], failed: dict[str, str]) -> Finding:
    """Run a check. ``failed``: the name of the first check that each failure has ended, by the
    failure's words, which are told once.
    """
    name = check.__name__.strip("_")
    try:
        return check()
    except EnvironmentFailure as error:
        first = failed.setdefault(str(error), name)
        detail = str(error) if first == name else f"cannot be looked for: see {first}"
        return Finding(name, ok=False, detail=detail)


def _python() -> Finding:
    name, version = platform.python_implementation(), platform.python_version()
    return Finding("python", ok=True, detail=f"{name} {version} at {sys.executable}")


def _packages() -> Finding:
    names = ["lostack", "kafka-python", "pandas", "pytest"]
    names += [] if lacks("spark") else ["pyspark"]
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    return Finding("packages", ok=True, detail=versions)


def _extras() -> Finding:
    """Say which extras are installed. None is needed by every run, so none is missing."""
    missing = [extra for extra in EXTRAS if lacks(extra)]
    detail = ", ".join(extra for extra in EXTRAS if extra not in missing) or "none"
    if missing:
        asked = f"pip install 'lostack[{','.join(missing)}]'"
        detail += f"; not installed: {', '.join(missing)} (optional: {asked})"
    return Finding("extras", ok=True, detail=detail)


def _platform() -> Finding:
    """Say what system this is. Another C library than glibc is the one thing that no run mends."""
    if why := why_not_here():
        return Finding("platform", ok=False, detail=why)
    return Finding(
        "platform", ok=True, detail=f"{platform.system()} {platform.machine()}, {glibc()}"
    )


def _cache() -> Finding:
    root = cache_root()
    if root.name.startswith(BESIDE):
        named = os.environ.get(VARIABLE) or "it"
        detail = f"{named} is read-only: locks, and what is made or fetched besides, go to {root}"
        return Finding("cache", ok=True, detail=detail)
    return Finding("cache", ok=True, detail=str(root))


def _found_java() -> Java | None:
    """Return the Java a run would take without fetching one."""
    found = (ask(path) for path in candidates(os.environ))
    if os.environ.get("LOSTACK_JAVA_HOME"):
        return find_java(cache_root(), lambda _: None)
    fit = next((java for java in found if java is not None and java.release in WANTED), None)
    return fit or ask(jre.fetched(cache_root()) / "bin" / "java")


def _java() -> Finding:
    java = _found_java()
    if java is None:
        detail = (
            f"no Java 17 or 21 found; a run fetches {jre.RELEASE} into the cache, checked by its "
            "sha256"
        )
        return Finding("java", ok=False, detail=detail, remedy=how_to_install())
    return Finding("java", ok=True, detail=f"Java {java.version} at {java.path}")


def _jars() -> Finding:
    jar_set = read_jar_set(f"kafka-{VERSION}")
    directory = _jar_directory()
    if not directory.exists():
        return Finding(
            "jars",
            ok=False,
            detail=f"Kafka {VERSION} is not fetched yet",
            remedy="lostack run fetches it (45 MB)",
        )
    check = check_jars(directory, jar_set)
    if check:
        return Finding(
            "jars",
            ok=False,
            detail=str(check),
            remedy=f"remove {directory}; the next run fetches it again",
        )
    return Finding(
        "jars", ok=True, detail=f"Kafka {VERSION}: {len(jar_set.sums)} jars, every sha256 correct"
    )


def _connector() -> Finding:
    if lacks("spark"):
        return Finding("spark connector", ok=True, detail="not needed without the extra spark")
    name = f"spark-{pyspark_version()}"
    directory = cache_root() / "jars" / name
    if not directory.exists():
        return Finding(
            "spark connector",
            ok=True,
            detail="fetched by the first command that needs Spark (10 MB)",
        )
    check = check_jars(directory, read_jar_set(name))
    if check:
        return Finding(
            "spark connector",
            ok=False,
            detail=str(check),
            remedy=f"remove {directory}; the next run fetches it again",
        )
    return Finding(
        "spark connector",
        ok=True,
        detail=f"PySpark {pyspark_version()}, connector to Kafka: every sha256 correct",
    )


def _jar_directory() -> Path:
    return original(cache_root() / "jars" / f"kafka-{VERSION}")


def _archive() -> Finding:
    java, directory = _found_java(), _jar_directory()
    if java is None or not directory.exists():
        return Finding("class-data archive", ok=True, detail="made by the first run")
    jars = [directory / name for name in sorted(read_jar_set(f"kafka-{VERSION}").sums)]
    archive = find_archive(java, jars, cache=cache_root())
    if archive is None:
        return Finding(
            "class-data archive", ok=True, detail="made by the next run (about ten seconds, once)"
        )
    return Finding(
        "class-data archive",
        ok=True,
        detail="ready" if archive.flags else "could not be made: starts are slower",
    )


def _toxiproxy() -> Finding:
    found = find_toxiproxy(cache_root())
    if found is not None:
        return Finding("toxiproxy", ok=True, detail=f"server at {found}")
    go = next((path for path in go_candidates(cache_root(), os.environ) if path.exists()), None)
    how = f"by {go}" if go else "by a Go compiler that is fetched for it"
    return Finding(
        "toxiproxy", ok=True, detail=f"{TOXIPROXY} is built {how}, by the first run that needs it"
    )


def _postgres() -> Finding:
    found = find_postgres()
    if found is None:
        return Finding(
            "postgres",
            ok=True,
            detail=f"{why_no_postgres()} (optional: cells that need one are void)",
        )
    user = f", run as {found.user}" if found.user else ""
    return Finding(
        "postgres", ok=True, detail=f"PostgreSQL {found.version} at {found.programs}{user}"
    )


def _tracing() -> Finding:
    why = why_no_tracing()
    detail = (
        f"{why} (optional: points at durable writes do not apply)"
        if why
        else "strace holds a program at its durable writes"
    )
    return Finding("tracing", ok=True, detail=detail)


def _disk() -> Finding:
    free = shutil.disk_usage(tempfile.gettempdir()).free >> 20
    return Finding(
        "disk",
        free >= DISK_MB,
        f"{free} MB free",
        "" if free >= DISK_MB else f"make {DISK_MB} MB free",
    )


def _memory() -> Finding:
    free = psutil.virtual_memory().available >> 20
    remedy = (
        ""
        if free >= MEMORY_MB
        else f"free {MEMORY_MB} MB: three brokers and their programs need that much"
    )
    return Finding("memory", free >= MEMORY_MB, f"{free} MB available", remedy)


def _ports() -> Finding:
    with PortLease(8) as lease:
        return Finding(
            "ports",
            ok=True,
            detail=f"free on loopback, e.g. {lease.ports[0]} to {max(lease.ports)}",
        )


def _open_files() -> Finding:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    remedy = "" if soft >= FILES else f"ulimit -n {FILES}"
    return Finding("open files", soft >= FILES, f"limit {soft}", remedy)


def _engine() -> Finding:
    if lacking := [extra for extra in ("docker", "spark") if lacks(extra)]:
        detail = f"not asked without the extra {lacking[0]}"
        return Finding("container engine", ok=True, detail=detail)
    from harness.provision.images import NAMES, describe  # noqa: PLC0415
    from harness.runtimes.docker.engine import connect, same_kernel  # noqa: PLC0415 - the engine's client; nobody else needs it

    name = "container engine"
    try:
        client = connect()
    except EnvironmentFailure as error:
        return Finding(name, ok=True, detail=f"{error} (optional: only --runtime docker needs one)")
    if trouble := same_kernel(client):
        return Finding(
            name, ok=True, detail=f"{trouble} (optional: only --runtime docker needs one)"
        )
    there = "; ".join(describe(client, each) for each in NAMES)
    return Finding(name, ok=True, detail=f"{client.version()['Version']}; {there}")


def _systems() -> Finding:
    own, theirs = [name for name in real() if name in SYSTEMS], entry_points_of(GROUP)
    others = "".join(f"; {entry.name} of the package {packaged(entry)}" for entry in theirs)
    return Finding("systems", ok=True, detail=", ".join(own) + others)
