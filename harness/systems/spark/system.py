"""Spark as a system under test: prepare Kafka and Spark, and deploy a broker for queries."""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from harness.model.failures import EnvironmentFailure
from harness.model.scenario import Role
from harness.provision.failpoints import ensure_failpoints
from harness.provision.inside_pyspark import pyspark_version
from harness.provision.spark import ensure_spark
from harness.provision.spark_release import wanted_release
from harness.provision.table_formats import (
    DELTA,
    ICEBERG,
    TableFormat,
    ensure_table_failpoints,
    ensure_table_format,
)
from harness.run.lacking import fetched_by_client
from harness.stages.queries import STREAM_TO_DELTA, STREAM_TO_ICEBERG
from harness.systems.kafka.system import DeployedOnKafka, Prepared, started
from harness.systems.spark.driver import CONF
from harness.systems.spark.launcher import DockerSparkGround, ProcessSparkGround, refuse_release
from harness.systems.spark.parts import parts_of
from harness.systems.spark.session import NAME, SharedSession

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.model.scenario import Deployment
    from harness.run.parts import Parts
    from harness.systems.kafka.parts import CellOnKafka
    from harness.systems.kafka.services import Services
    from harness.systems.kafka.transport import KafkaTransport
    from harness.systems.spark.launcher import SparkGround


CLIENT: Final = "spark-sql-kafka"
"""The connector that was built for this Spark; with ``==``, one with another kafka-clients."""


FORMATS: Final = {STREAM_TO_DELTA: DELTA, STREAM_TO_ICEBERG: ICEBERG}
"""Pipeline → the format of its table."""


class Needed(NamedTuple):
    """What the drivers of a cell need: a connector, and perhaps the name of a table format."""

    client: str = CLIENT
    table: str = ""

    @staticmethod
    def by(cell: Cell) -> Needed:
        """Return what a cell needs."""
        found = FORMATS.get(cell.scenario.pipeline)
        return Needed(cell.client, found.name if found else "")

    @property
    def session(self) -> str:
        """The name of the session that such cells share."""
        version = self.client.partition("==")[2]
        return f"{NAME}{version and f'-of-{version}'}{self.table and f'-with-{self.table}'}"


class SparkSystem:
    """Structured Streaming in one runtime: queries of cells on a broker that cells share.

    Implements :class:`harness.interfaces.Launcher`.
    """

    name = "spark"

    def __init__(self, runtime: str = "process", version: str | None = None) -> None:
        del version  # the package pyspark decides it
        self._kafka = Prepared(runtime)
        self._spark: dict[Needed, SparkGround] = {}

    def prepare(self, say: Callable[[str], None]) -> None:
        """Download Kafka and the connector and compile the failpoints, or get the
        images with them.
        """
        self._kafka.prepare(say)
        self._bring(say, CLIENT)

    def prepare_for(self, cells: Iterable[Cell], say: Callable[[str], None]) -> Mapping[str, str]:
        """Download or build what only some cells need: Toxiproxy, PostgreSQL, a connector with
        another kafka-clients, a table format. Return who lacks what.
        """
        cells = tuple(cells)
        lacking = self._kafka.prepare_for(cells, say) | fetched_by_client(
            cells, partial(self._bring, say)
        )
        for wanted in FORMATS.values():
            mine = [cell for cell in cells if Needed.by(cell).table == wanted.name]
            lacking |= fetched_by_client(mine, partial(self._bring_table, wanted, say))
        return lacking

    def _bring_table(self, wanted: TableFormat, say: Callable[[str], None], client: str) -> None:
        """Prepare the Spark of a client with a table format, once."""
        need = Needed(client, wanted.name)
        if need in self._spark:
            return
        if self._kafka.runtime != "process":
            raise EnvironmentFailure("the image of Spark has no table format")
        installed, connector = pyspark_version(), client.partition("==")[2]
        other = wanted_release(os.environ, installed)
        install = ensure_table_format(wanted, installed, say, other, connector)
        failpoints = ensure_failpoints(install)
        added = ensure_table_failpoints(wanted, install, failpoints)
        self._spark[need] = ProcessSparkGround(install, failpoints, (added,), wanted.conf)

    def _bring(self, say: Callable[[str], None], client: str) -> None:
        """Prepare the Spark of a client, once."""
        if Needed(client) in self._spark:
            return
        other, connector = wanted_release(os.environ, pyspark_version()), client.partition("==")[2]
        if self._kafka.runtime == "process":
            install = ensure_spark(say, other, connector)
            self._spark[Needed(client)] = ProcessSparkGround(install, ensure_failpoints(install))
        elif connector:
            raise EnvironmentFailure(f"{client}: containers have only {CLIENT} of their image")
        else:
            refuse_release(other)
            self._spark[Needed(client)] = self._in_containers(say)

    def deploy(self, need: Deployment, directory: Path) -> SparkDeployed:
        """Start a broker with its wire, for the drivers of cells."""
        if not self._spark:
            raise RuntimeError("prepare() comes first")
        transport = self._kafka.transport(need, directory)
        services = self._kafka.services(transport, Role.DRIVER)
        return started(SparkDeployed(transport, services, self._spark), directory)

    def versions(self) -> dict[str, str]:
        """Return the versions of Kafka, Spark, the connectors with another kafka-clients, and the
        table formats.
        """
        spark = self._spark[Needed()].versions() if Needed() in self._spark else {}
        clients = {need.client for need in self._spark} - {CLIENT}
        others = {client: client.partition("==")[2] for client in sorted(clients)}
        brought = {need.table for need in self._spark}
        others |= {each.name: str(each) for each in FORMATS.values() if each.name in brought}
        return self._kafka.versions(self.name) | spark | others

    def _in_containers(self, say: Callable[[str], None]) -> SparkGround:
        from harness.provision.stand_ins import driver_jars  # noqa: PLC0415 - brings the engine's client; processes need none

        self._kafka.stood_on().bring(("spark", "driver"), say)
        return DockerSparkGround(pyspark_version(), tuple(jar.name for jar in driver_jars(say)))


class SparkDeployed(DeployedOnKafka):
    """A running broker behind its wire, for the queries of cells."""

    def __init__(
        self, transport: KafkaTransport, services: Services, spark: Mapping[Needed, SparkGround]
    ) -> None:
        super().__init__(transport, services)
        self._spark = spark
        self._sessions = {
            need: SharedSession(transport.runtime, ground, CONF, transport.directory, need.session)
            for need, ground in spark.items()
        }
        """A session starts with its first query."""

    def start(self) -> None:
        """Start the wire and the broker, and meanwhile preload the modules of cells' programs."""
        for ground in self._spark.values():
            self.transport.runtime.expect(ground.preload)
        self.transport.start()

    def parts(self, on_kafka: CellOnKafka) -> Parts:
        """Return the parts of one cell."""
        need = Needed.by(on_kafka.scene.cell)
        return parts_of(on_kafka, spark=self._spark[need], session=self._sessions[need])

    def close(self) -> None:
        """Stop the sessions, then the services, the broker and the wire."""
        with ExitStack() as ends:  # the last comes first
            ends.callback(self.transport.close)
            ends.callback(self.services.close)
            for session in self._sessions.values():
                ends.callback(session.close)
