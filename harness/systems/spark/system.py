"""Spark as a system under test: prepare Kafka and Spark, and deploy a broker for queries."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from harness.model.scenario import Role
from harness.provision.failpoints import ensure_failpoints
from harness.provision.spark import ensure_spark, pyspark_version
from harness.provision.spark_release import wanted_release
from harness.run.cell import CellRun
from harness.systems.kafka.system import Prepared, started
from harness.systems.spark.driver import CONF
from harness.systems.spark.launcher import DockerSparkGround, ProcessSparkGround, refuse_release
from harness.systems.spark.parts import parts_of
from harness.systems.spark.session import SharedSession

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.model.history import HistoryWriter
    from harness.model.scenario import Deployment
    from harness.systems.kafka.services import Services
    from harness.systems.kafka.transport import KafkaTransport
    from harness.systems.spark.launcher import SparkGround


class SparkSystem:
    """Structured Streaming in one runtime: queries of cells on a broker that cells share.

    Implements :class:`harness.interfaces.Launcher`.
    """

    name = "spark"

    def __init__(self, runtime: str = "process", version: str | None = None) -> None:
        del version  # the package pyspark decides it
        self._kafka = Prepared(runtime)
        self._spark: SparkGround | None = None

    def prepare(self, say: Callable[[str], None]) -> None:
        """Download Kafka and the connector and compile the failpoints, or get the
        images with them.
        """
        self._kafka.prepare(say)
        other = wanted_release(os.environ, pyspark_version())
        if self._kafka.runtime == "process":
            install = ensure_spark(say, other)
            self._spark = ProcessSparkGround(install, ensure_failpoints(install))
        else:
            refuse_release(other)
            self._spark = self._in_containers(say)

    def prepare_for(self, cells: Iterable[Cell], say: Callable[[str], None]) -> Mapping[str, str]:
        """Download or build what only some cells need: Toxiproxy, PostgreSQL. Return who lacks
        what.
        """
        return self._kafka.prepare_for(cells, say)

    def deploy(self, need: Deployment, directory: Path) -> SparkDeployed:
        """Start a broker with its wire, for the drivers of cells."""
        transport = self._kafka.transport(need, directory)
        services = self._kafka.services(transport, Role.DRIVER)
        return started(SparkDeployed(transport, services, self._found()), directory)

    def versions(self) -> dict[str, str]:
        """Return the versions of Kafka and Spark."""
        return self._kafka.versions(self.name) | (self._spark.versions() if self._spark else {})

    def _found(self) -> SparkGround:
        if self._spark is None:
            raise RuntimeError("prepare() comes first")
        return self._spark

    def _in_containers(self, say: Callable[[str], None]) -> SparkGround:
        from harness.provision.images import driver_jars  # noqa: PLC0415 - brings the engine's client; processes need none

        self._kafka.stood_on().bring(("spark", "driver"), say)
        return DockerSparkGround(pyspark_version(), tuple(jar.name for jar in driver_jars(say)))


class SparkDeployed:
    """A running broker behind its wire, for the queries of cells."""

    def __init__(self, transport: KafkaTransport, services: Services, spark: SparkGround) -> None:
        self.transport = transport
        self._services = services
        self._spark = spark
        self._session = SharedSession(transport.runtime, spark, CONF, transport.directory)

    def start(self) -> None:
        """Start the wire and the broker, and meanwhile preload the modules of cells' programs."""
        self.transport.runtime.expect(self._spark.preload)
        self.transport.start()

    def together(self, cells: Sequence[Cell]) -> None:
        """Do nothing: cells on Spark share no crash."""

    def cell_run(self, cell: Cell, directory: Path, history: HistoryWriter) -> CellRun:
        """Return the run of one cell."""
        parts = parts_of(
            cell,
            directory,
            history,
            transport=self.transport,
            services=self._services,
            spark=self._spark,
            session=self._session,
        )
        return CellRun(cell, history, parts)

    def check(self) -> None:
        """Raise EnvironmentFailure if a process of the deployment died by itself."""
        self.transport.check()
        self._services.check()

    def close(self) -> None:
        """Stop the session, then the services, the broker and the wire."""
        try:
            self._session.close()
        finally:
            self._services.close()
            self.transport.close()
