"""Spark deployed: the Kafka it reads and writes, and what its drivers are started from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from harness.core.scenario import Role
from harness.setup.failpoints import ensure_failpoints
from harness.setup.spark import ensure_spark, pyspark_version
from harness.setup.spark_release import wanted_release
from harness.systems.kafka.system import KafkaDeployed, KafkaSystem
from harness.systems.spark.driver import CONF
from harness.systems.spark.ground import DockerSparkGround, ProcessSparkGround, refuse_release
from harness.systems.spark.run import SparkCellRun
from harness.systems.spark.session import SharedSession

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.core.cell import Cell
    from harness.core.history import HistoryWriter
    from harness.systems.kafka.ground import Ground
    from harness.systems.spark.ground import SparkGround


class SparkSystem(KafkaSystem):
    """Structured Streaming in the runtime of that name: a driver for each cell, on a broker that cells share."""

    name = "spark"

    def __init__(self, runtime: str = "process") -> None:
        super().__init__(runtime)
        self._spark: SparkGround | None = None

    def prepare(self, say: Callable[[str], None]) -> None:
        """Fetch what Kafka and the connector need, and compile the failpoints; or the images that hold them."""
        super().prepare(say)
        other = wanted_release(os.environ, pyspark_version())
        if self._runtime == "process":
            install = ensure_spark(say, other)
            self._spark = ProcessSparkGround(install, ensure_failpoints(install))
        else:
            refuse_release(other)
            self._spark = self._in_containers(say)

    def versions(self) -> dict[str, str]:
        """Those of Kafka, and Spark's."""
        return super().versions() | (self._spark.versions() if self._spark else {})

    def _in_containers(self, say: Callable[[str], None]) -> SparkGround:
        from harness.runtimes.docker.engine import connect  # noqa: PLC0415 - brings the engine's client; processes need none
        from harness.setup.images import driver_jars, ensure_image  # noqa: PLC0415

        client = connect()
        images = {name: ensure_image(client, name, say) for name in ("spark", "driver")}
        client.close()
        if self._ground is None:
            raise RuntimeError("Kafka comes first")
        self._ground.bring(images)
        return DockerSparkGround(pyspark_version(), tuple(jar.name for jar in driver_jars(say)))

    def _deployment(self, ground: Ground, directory: Path) -> SparkDeployed:
        if self._spark is None:
            raise RuntimeError("prepare() comes first")
        return SparkDeployed(ground, directory, self._spark)


class SparkDeployed(KafkaDeployed):
    """A broker behind its wire, for the queries of cells."""

    reader = Role.DRIVER

    def __init__(self, ground: Ground, directory: Path, spark: SparkGround) -> None:
        super().__init__(ground, directory)
        self.spark = spark
        self.session = SharedSession(self.runtime, spark, CONF, directory)

    def start(self) -> None:
        """Start wire and broker, and meanwhile import once what the programs of every cell import."""
        self.runtime.expect(self.spark.preload)
        super().start()

    def close(self) -> None:
        """End the session, then broker and wire."""
        try:
            self.session.close()
        finally:
            super().close()

    def cell_run(self, cell: Cell, directory: Path, history: HistoryWriter) -> SparkCellRun:
        """Return the run of one cell."""
        return SparkCellRun(self, cell, directory, history)
