"""Fetch another Spark release than the locked one, as the system under test:
``LOSTACK_SPARK=4.0.1``.

The Kafka connector is fetched first, because it may be missing; all its parts must be of the same
release. Then PySpark is fetched into the cache, outside of the environment that runs lostack.
lostack has checksums of the connectors of releases that it was locked to once. Of others, those of
the first download are recorded, and later downloads must match them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from harness.model.failures import EnvironmentFailure
from harness.provision.cache import fill, locked, need_space
from harness.provision.central import Module
from harness.provision.jars import (
    LISTS,
    JarSet,
    ensure_jars,
    ivy_retrieve,
    read_jar_set,
    sha256,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from harness.provision.java import Java

VARIABLE: Final = "LOSTACK_SPARK"
RELEASE: Final = re.compile(r"(?:[4-9]|\d\d)\.\d+\.\d+")
"""The suffix of artefacts for Scala 2.13, which PySpark uses since version 4."""
JAR: Final = re.compile(r"(?P<name>.+)-(?P<revision>\d[^-]*)\.jar")
SPARK: Final = "org.apache.spark"
OURS: Final = (
    "spark-sql-kafka-0-10_",
    "spark-token-provider-kafka-0-10_",
    "kafka-clients-",
    "commons-pool2-",
)
NEEDED_MB: Final = 1500
INSTALLED_WITHIN_S: Final = 1800.0


def wanted_release(environ: Mapping[str, str], locked_release: str) -> str | None:
    """Return the release that the user asks for; ``None`` for the locked one.

    Raises:
        EnvironmentFailure: the setting names no release of Spark 4.
    """
    text = environ.get(VARIABLE, "").strip()
    if text and not RELEASE.fullmatch(text):
        raise EnvironmentFailure(
            f"{VARIABLE} must be a release of Spark 4 or later, such as {locked_release}, not "
            f"{text!r}"
        )
    return None if text in {"", locked_release} else text


def connector_parts(release: str, scala: str) -> tuple[Module, ...]:
    """Return the modules of the connector. Revision ``*``: the connector's own
    dependency decides.
    """
    return (
        Module(SPARK, f"spark-sql-kafka-0-10_{scala}", release),
        Module(SPARK, f"spark-token-provider-kafka-0-10_{scala}", release),
        Module("org.apache.kafka", "kafka-clients", "*"),
        Module("org.apache.commons", "commons-pool2", "*"),
    )


def ensure_connector(
    release: str,
    scala: str,
    *,
    cache: Path,
    java: Java,
    say: Callable[[str], None],
    retrieve: Callable[[JarSet, Path, Path, Java, Callable[[str], None]], None] = ivy_retrieve,
) -> tuple[JarSet, Path]:
    """Return the connector of a release, and its folder.

    Raises:
        EnvironmentFailure: the connector is incomplete. The message is one line.
    """
    lists = cache / "jars"
    lists.mkdir(exist_ok=True)
    name = f"spark-{release}"
    if (LISTS / f"{name}.sha256").is_file():  # lostack was locked to this release once
        jar_set = read_jar_set(name)
        return jar_set, ensure_jars(jar_set, cache=cache, java=java, say=say)
    directory = lists / name
    with locked(lists / f"{name}-list", say):
        if not (lists / f"{name}.sha256").exists():
            parts = connector_parts(release, scala)
            try:
                need_space(lists, NEEDED_MB, name)
                wanted, ivy = JarSet(name, parts[:1], {}), lists / f".{name}.ivy"
                fill(
                    directory,
                    lambda part: _resolve(part, lambda: retrieve(wanted, part, ivy, java, say)),
                )
                modules = _matched(directory, parts)
            except EnvironmentFailure as error:
                shutil.rmtree(directory, ignore_errors=True)
                raise EnvironmentFailure(
                    f"Spark {release} cannot be used: {error}; unset {VARIABLE}, or name another"
                ) from None
            sums = [f"{sha256(jar)}  {jar.name}" for jar in sorted(directory.glob("*.jar"))]
            note = lists / f".{name}.part"
            note.write_text(
                "\n".join([*(f"# {' '.join(module)}" for module in modules), *sums]) + "\n"
            )
            note.replace(lists / f"{name}.sha256")
    jar_set = read_jar_set(name, lists)
    return jar_set, ensure_jars(jar_set, cache=cache, java=java, say=say)


def _resolve(part: Path, retrieve: Callable[[], None]) -> None:
    """Fetch the connector with its dependencies, and keep only the jars that Spark itself does not
    have.
    """
    retrieve()
    for jar in part.glob("*.jar"):
        if not jar.name.startswith(OURS):
            jar.unlink()


def _matched(directory: Path, parts: tuple[Module, ...]) -> list[Module]:
    """Return the modules with the revisions that were fetched.

    Raises:
        EnvironmentFailure: a module is missing, or of another release.
    """
    came = {
        found["name"]: found["revision"]
        for jar in directory.glob("*.jar")
        if (found := JAR.fullmatch(jar.name))
    }
    for part in parts:
        if part.name not in came:
            raise EnvironmentFailure(f"{part.name} is missing in its Kafka connector")
        if part.revision not in {"*", came[part.name]}:
            raise EnvironmentFailure(f"{part.name} {came[part.name]} is of another release")
    return [part._replace(revision=came[part.name]) for part in parts]


def ensure_pyspark(release: str, *, cache: Path, say: Callable[[str], None]) -> Path:
    """Return a folder with PySpark of a release, for ``PYTHONPATH``.

    Raises:
        EnvironmentFailure: that release of PySpark cannot be fetched.
    """
    directory = cache / "spark" / release
    directory.parent.mkdir(exist_ok=True)
    with locked(directory, say):
        if not (directory / "pyspark").is_dir():
            need_space(directory.parent, NEEDED_MB, f"PySpark {release}")
            say(f"fetching PySpark {release} (about 430 MB, once)")
            fill(directory, lambda part: _install(release, part))
    return directory


def _install(release: str, part: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--target",
        str(part),
        f"pyspark=={release}",
    ]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=INSTALLED_WITHIN_S,
            check=False,
            env={**os.environ},
        )
    except subprocess.TimeoutExpired:
        raise EnvironmentFailure(
            f"PySpark {release} was not fetched in {INSTALLED_WITHIN_S:.0f} s; check the network"
        ) from None
    if done.returncode != 0:
        last = next(
            (line for line in reversed(done.stderr.splitlines()) if line.strip()),
            f"pip ended with {done.returncode}",
        )
        raise EnvironmentFailure(
            f"PySpark {release} cannot be installed: {last.strip()[:200]}; unset {VARIABLE}, or "
            "name another"
        )
