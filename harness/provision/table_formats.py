"""Bring Spark with a table format (Delta, Iceberg): its jars, and the failpoints around the
versions of its tables.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.model.failures import EnvironmentFailure
from harness.provision.cache import cache_root
from harness.provision.failpoints import CHECKPOINT
from harness.provision.janino import SOURCES, ensure_compiled
from harness.provision.jars import jars_of, read_jar_set
from harness.provision.java import find_java
from harness.provision.spark import Further, ensure_spark

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.provision.spark_install import SparkInstall

EXERCISE: Final = Path(__file__).with_name("table_exercise.py")


@dataclass(frozen=True, slots=True)
class TableFormat:
    """A table format, at the release that was built for one release of Spark."""

    name: str
    release: str
    spark: str
    """The release of Spark."""
    session: Mapping[str, str]
    """What a session with it is told."""
    failpoints: Mapping[str, str]
    """The setting that selects the failpoints around the versions of its tables."""

    @property
    def conf(self) -> Mapping[str, str]:
        """The settings of a session in which its tables have failpoints."""
        return {**self.session, **self.failpoints}

    def __str__(self) -> str:
        """Return its release, and Spark's."""
        return f"{self.release} on Spark {self.spark}"


DELTA: Final = TableFormat(
    "delta",
    "4.4.0",
    "4.2.0",
    {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # one is enough for the log of a cell's table
        "spark.databricks.delta.snapshotPartitions": "1",
    },
    {"spark.delta.logStore.file.impl": "lostack.DeltaFailpoints"},
)
ICEBERG: Final = TableFormat(
    "iceberg",
    "1.11.0",
    "4.0.0",
    {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    },
    {"spark.hadoop.fs.file.impl": "lostack.IcebergFailpoints"},
)


def ensure_table_format(
    wanted: TableFormat,
    installed: str,
    say: Callable[[str], None],
    other: str | None = None,
    connector: str = "",
) -> SparkInstall:
    """Return the Spark that a table format was built for, with its jars. If it is not the
    ``installed`` one, PySpark is fetched into the cache.

    ``other``: the release that the user asks for. ``connector``: see :func:`.spark.ensure_spark`.

    Raises:
        EnvironmentFailure: the user asks for another Spark, or something cannot be fetched.
    """
    if other not in (None, wanted.spark):
        raise EnvironmentFailure(
            f"{wanted.name} {wanted.release} was built for Spark {wanted.spark}, and none is known "
            f"for Spark {other}: unset LOSTACK_SPARK, or leave out the pipeline "
            f"stream-to-{wanted.name}"
        )
    jar_set = read_jar_set(f"{wanted.name}-{wanted.release}")
    jars = jars_of(jar_set, find_java(cache_root(), say), say)
    needed = None if wanted.spark == installed else wanted.spark
    further = Further(jars, wanted.session, EXERCISE)
    return ensure_spark(say, needed, connector, further=further)


def ensure_table_failpoints(wanted: TableFormat, install: SparkInstall, checkpoint: Path) -> Path:
    """Return the jar of the failpoints around the versions of a format's tables.

    ``checkpoint``: the jar of the checkpoint's failpoints, which these call.

    Raises:
        EnvironmentFailure: the source does not compile.
    """
    called = hashlib.sha256(CHECKPOINT.read_bytes()).hexdigest()
    return ensure_compiled(
        SOURCES / f"{wanted.name.title()}Failpoints.java",
        cache_root() / "failpoints",
        java=install.java,
        against=f"{install.classpath}:{checkpoint}",
        known=f"{wanted.name} {wanted}, {called}",
        janino=install.classpath,
    )
