"""Describes a Spark that can be started: its folder, its class path, and what its
processes need.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SCALA: Final = "2.13"


@dataclass(frozen=True, slots=True)
class SparkInstall:
    """How to run Spark: ``java *jvm_flags -Xmx… -cp classpath <a main class of Spark> …``.

    ``home`` is PySpark's folder (SPARK_HOME). ``connector`` are the jars of the Kafka connector;
    they are part of the class path and must be sent to executors on other machines
    (``spark.jars``). ``jvm_flags`` are the options that Spark's own launcher gives, and the option
    for the class-data archive. The archive fits only if the class path begins with exactly
    ``classpath``.
    """

    java: Path
    home: Path
    classpath: str
    connector: tuple[Path, ...]
    jvm_flags: tuple[str, ...]
    version: str
    site: Path | None = None
    """The folder of another PySpark than that of the environment that runs lostack; ``None`` for
    the latter.
    """
    login: Mapping[str, str] = field(default_factory=dict)
    """Environment variables by which its processes know a user who has no account."""

    @property
    def env(self) -> dict[str, str]:
        """The environment variables of every Spark process. They restrict it to loopback, this Java
        and this Python.
        """
        mine = os.environ.get("PYTHONPATH", "")
        path = (
            {"PYTHONPATH": f"{self.site}{os.pathsep}{mine}".rstrip(os.pathsep)} if self.site else {}
        )
        return {
            **path,
            **self.login,
            "SPARK_HOME": str(self.home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_HOSTNAME": "localhost",
            "SPARK_SCALA_VERSION": SCALA,
            "SPARK_CONNECT_MODE": "0",
            "JAVA_HOME": str(self.java.parent.parent),
            "PYSPARK_PYTHON": sys.executable,
        }
