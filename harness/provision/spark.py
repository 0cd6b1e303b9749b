"""Prepare Spark: its own jars (PySpark brings them), the connector to Kafka, and a class-data
archive for its JVMs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.model.failures import EnvironmentFailure
from harness.provision.account import hadoop_login
from harness.provision.archive import Archive, dump_flag, ensure_archive, require_dumped
from harness.provision.cache import cache_root
from harness.provision.gateway import start_gateway
from harness.provision.inside_pyspark import pyspark_home, pyspark_version
from harness.provision.jars import LISTS, ensure_jars, jars_of, read_jar_set
from harness.provision.java import find_java
from harness.provision.spark_install import SCALA, SparkInstall
from harness.provision.spark_release import ensure_connector, ensure_pyspark
from harness.runtimes.interface import NodeSpec
from harness.runtimes.process import ProcessRuntime

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.provision.java import Java

EXERCISE: Final = Path(__file__).with_name("spark_exercise.py")
EXERCISE_WITHIN_S: Final = 600.0
"""Time limit in seconds for making the archive: 12 s on an idle machine, but minutes
on a busy one.
"""
DUMPED_WITHIN_S: Final = 300.0
OPTIONS_WITHIN_S: Final = 30.0
DRIVERS: Final = {"sqlite": "sqlite-jdbc-3.50.3.0", "postgresql": "postgresql-42.7.7"}
"""JDBC subprotocol → the set of jars with its driver."""


@dataclass(frozen=True, slots=True)
class Further:
    """Further jars for Spark's class path."""

    jars: tuple[Path, ...]
    conf: Mapping[str, str]
    """What a session with them is told."""
    exercise: Path
    """A program that uses them, for the class-data archive."""


def connectors(release: str) -> dict[str, str]:
    """Return the known connectors to Kafka of a release: version → name of its list of jars.

    ``4.2.0+3.9.1`` is the connector 4.2.0 with kafka-clients 3.9.1 instead of the version that it
    was built with. A connector that was built for the release is called as the release.
    """
    found = sorted(file.stem for file in LISTS.glob(f"spark-{release}*.sha256"))
    return {name.removeprefix("spark-"): name for name in found}


def ensure_spark(
    progress: Callable[[str], None],
    other: str | None = None,
    connector: str = "",
    *,
    further: Further | None = None,
) -> SparkInstall:
    """Return PySpark's Spark. The first run fetches the matching Kafka connector and makes a
    class-data archive.

    ``other`` is a release that is not installed; it is fetched into the cache (see
    :mod:`harness.provision.spark_release`). ``connector`` is one of :func:`connectors` with another
    kafka-clients; it gets no class-data archive. ``further``: more jars for the class path.
    ``progress`` shows what is being done, one line for each call. Several runs may call this at
    once.

    Raises:
        EnvironmentFailure: there is no list of jars for this version of PySpark, no network, or no
            Java. The message is one line and says what helps.
    """
    home, release, site = pyspark_home(), pyspark_version(), None
    if connector and (other is not None or connector not in connectors(release)):
        raise EnvironmentFailure(
            f"spark-sql-kafka=={connector}: lostack has no checksums of this connector for Spark "
            f"{other or release}; it has {', '.join(connectors(release))}, for Spark {release}"
        )
    cache = cache_root()
    java = find_java(cache, progress)
    if other is None:
        jar_set = read_jar_set(connectors(release).get(connector, f"spark-{release}"))
        directory = ensure_jars(jar_set, cache=cache, java=java, say=progress)
    else:
        jar_set, directory = ensure_connector(other, SCALA, cache=cache, java=java, say=progress)
        site, release = ensure_pyspark(other, cache=cache, say=progress), other
        home = site / "pyspark"
    added = tuple(directory / name for name in sorted(jar_set.sums))
    jars = (*sorted((home / "jars").glob("*.jar")), *added, *(further.jars if further else ()))
    classpath = ":".join(str(jar) for jar in jars)
    bare = SparkInstall(
        java.path,
        home,
        classpath,
        added,
        _launcher_options(java, home, cache, release),
        release,
        site,
        login := hadoop_login(java.path, classpath, f"Spark {release}"),
    )
    if connector not in ("", release):
        return bare
    archive = ensure_archive(
        java,
        jars,
        cache=cache,
        say=progress,
        make=lambda *paths: _make_archive(bare, paths[2], further),
        recipe=EXERCISE.read_text()
        + ("an agent" if login else "")
        + (further.exercise.read_text() if further else ""),
    )
    return _with(bare, archive)


def ensure_driver(url: str, progress: Callable[[str], None]) -> tuple[Path, ...]:
    """Return the jars of the JDBC driver for an address.

    Raises:
        EnvironmentFailure: the driver of this address is unknown.
    """
    kind = url.removeprefix("jdbc:").partition(":")[0]
    if kind not in DRIVERS:
        known = ", ".join(sorted(DRIVERS))
        raise EnvironmentFailure(
            f"no JDBC driver for {kind!r} is known (known: {known}); give its jar by --jars"
        )
    return jars_of(read_jar_set(DRIVERS[kind]), find_java(cache_root(), progress), progress)


def _with(install: SparkInstall, archive: Archive) -> SparkInstall:
    return replace(install, jvm_flags=(*archive.flags, *install.jvm_flags))


def _launcher_options(java: Java, home: Path, cache: Path, release: str) -> tuple[str, ...]:
    """Return the options that Spark's JVMs need (``--add-opens`` and the like). Spark's launcher is
    asked once for them.
    """
    note = cache / "archives" / f"spark-{release}-java-{java.release}.options.json"
    try:
        return tuple(json.loads(note.read_text()))
    except (OSError, ValueError):
        pass
    command = [
        str(java.path),
        "-cp",
        f"{home}/jars/*",
        "org.apache.spark.launcher.Main",
        "org.apache.spark.deploy.SparkSubmit",
        "pyspark-shell",
    ]
    environ = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_SCALA_VERSION": SCALA,
        "JAVA_HOME": str(java.path.parent.parent),
    }
    try:
        done = subprocess.run(
            command,
            env=environ,
            capture_output=True,
            text=True,
            timeout=OPTIONS_WITHIN_S,
            check=True,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        raise EnvironmentFailure(
            "Spark's launcher does not run, so PySpark's installation may be incomplete: "
            "install it again"
        ) from None
    words = [word for word in done.stdout.strip("\n\0").split("\0") if word]
    inner = words[words.index("-cp") + 2 : words.index("org.apache.spark.deploy.SparkSubmit")]
    options = tuple(word for word in inner if not word.startswith("-Xmx"))
    note.parent.mkdir(exist_ok=True)
    part = note.with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps(options))
    part.replace(note)
    return options


def _make_archive(install: SparkInstall, directory: Path, further: Further | None) -> None:
    """Run Spark once with everything that lostack uses, so that it writes ``classes.jsa``. Raises
    if any step fails.
    """
    archive = directory / "classes.jsa"
    work = directory / "work"
    work.mkdir()
    conf = further.conf if further else {}
    with ProcessRuntime(directory=work) as runtime:
        gateway = start_gateway(
            runtime, install, work=work, name="archive", conf=conf, flags=(dump_flag(archive),)
        )
        env = {**install.env, **gateway.env}
        for program in (EXERCISE, *((further.exercise,) if further else ())):
            argv = (sys.executable, str(program), str(work))
            node = runtime.start(NodeSpec(f"archive-{program.stem}", "tool", argv, env))
            end = node.wait(EXERCISE_WITHIN_S)
            if end is None or end.status != 0:
                raise EnvironmentFailure(f"Spark could not be exercised: {node.log_tail(1)}")
        gateway.node.close_stdin()
        gateway.node.wait(DUMPED_WITHIN_S)
    require_dumped(archive)
    shutil.rmtree(work)
