"""Spark deployed: the Kafka it reads and writes, and what its drivers are started from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from harness.setup.failpoints import ensure_failpoints
from harness.setup.spark import ensure_spark, pyspark_version
from harness.setup.spark_release import wanted_release
from harness.systems.kafka.system import KafkaDeployed, KafkaSystem
from harness.systems.spark.run import SparkCellRun

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.core.cell import Cell
    from harness.core.history import HistoryWriter
    from harness.setup.spark import SparkInstall
    from harness.systems.kafka.ground import Ground


class SparkSystem(KafkaSystem):
    """Structured Streaming in runtime ``process``: a driver JVM for each cell, on a broker that cells share."""

    name = "spark"

    def __init__(self, runtime: str = "process") -> None:
        super().__init__(runtime)
        self._spark: SparkInstall | None = None
        self._failpoints: Path | None = None

    def prepare(self, say: Callable[[str], None]) -> None:
        """Fetch what Kafka and the connector need, and compile the failpoints."""
        super().prepare(say)
        self._spark = ensure_spark(say, wanted_release(os.environ, pyspark_version()))
        self._failpoints = ensure_failpoints(self._spark)

    def versions(self) -> dict[str, str]:
        """Those of Kafka, and Spark's."""
        return super().versions() | ({"spark": self._spark.version} if self._spark else {})

    def _deployment(self, ground: Ground, directory: Path) -> SparkDeployed:
        if self._spark is None or self._failpoints is None:
            raise RuntimeError("prepare() comes first")
        return SparkDeployed(ground, directory, self._spark, self._failpoints)


class SparkDeployed(KafkaDeployed):
    """A broker behind its wire, for the queries of cells."""

    def __init__(self, ground: Ground, directory: Path, spark: SparkInstall, failpoint_jar: Path) -> None:
        super().__init__(ground, directory)
        self.spark = spark
        self.failpoint_jar = failpoint_jar

    def cell_run(self, cell: Cell, directory: Path, history: HistoryWriter) -> SparkCellRun:
        """Return the run of one cell."""
        return SparkCellRun(self, cell, directory, history)
