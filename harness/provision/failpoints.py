"""Compile the failpoints for Spark's JVM into a jar in the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.provision.cache import cache_root
from harness.provision.janino import SOURCES, ensure_compiled

if TYPE_CHECKING:
    from pathlib import Path

    from harness.provision.spark_install import SparkInstall

CHECKPOINT: Final = SOURCES / "CheckpointFailpoints.java"
CHECKPOINT_CLASS: Final = "lostack.CheckpointFailpoints"


def ensure_failpoints(install: SparkInstall) -> Path:
    """Return the jar of the failpoints for this version of Spark.

    Raises:
        EnvironmentFailure: the source does not compile.
    """
    into = cache_root() / "failpoints"
    return ensure_compiled(
        CHECKPOINT,
        into,
        java=install.java,
        against=install.classpath,
        known=f"Spark {install.version}",
    )
