"""Bring Delta for Spark: its jars, and the failpoints around the versions of its tables."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Final

from harness.model.failures import EnvironmentFailure
from harness.provision.cache import cache_root
from harness.provision.failpoints import CHECKPOINT
from harness.provision.janino import SOURCES, ensure_compiled
from harness.provision.jars import ensure_jars, read_jar_set
from harness.provision.java import find_java

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.provision.spark_install import SparkInstall

BUILT_FOR: Final = {"4.2.0": "4.4.0"}
"""Release of Spark → the release of Delta that was built for it, and is known here."""
FAILPOINTS: Final = SOURCES / "TableFailpoints.java"
CONF: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.delta.logStore.file.impl": "lostack.TableFailpoints",
    "spark.databricks.delta.snapshotPartitions": "1",
}
"""What a session with Delta is told. One partition is enough for the log of a cell's table."""


def ensure_delta(
    install: SparkInstall, failpoints: Path, say: Callable[[str], None]
) -> tuple[Path, ...]:
    """Return the jars of Delta for an installed Spark, and that of the failpoints.

    ``failpoints``: the jar of the checkpoint's failpoints, which these call.

    Raises:
        EnvironmentFailure: no Delta is known for this Spark, or its jars cannot be fetched.
    """
    release = BUILT_FOR.get(install.version)
    if release is None:
        raise EnvironmentFailure(
            f"no Delta is known for Spark {install.version} (known: Spark "
            f"{', '.join(BUILT_FOR)}): unset LOSTACK_SPARK, or leave out the pipeline "
            "stream-to-delta"
        )
    cache = cache_root()
    jar_set = read_jar_set(f"delta-{release}")
    directory = ensure_jars(jar_set, cache=cache, java=find_java(cache, say), say=say)
    jars = tuple(directory / name for name in sorted(jar_set.sums))
    called = hashlib.sha256(CHECKPOINT.read_bytes()).hexdigest()
    compiled = ensure_compiled(
        FAILPOINTS,
        cache / "failpoints",
        java=install.java,
        against=os.pathsep.join((install.classpath, *map(str, (*jars, failpoints)))),
        known=f"Spark {install.version}, Delta {release}, {called}",
        janino=install.classpath,
    )
    return (*jars, compiled)
