"""The declaration of the system Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.abilities import (
    BadNetwork,
    Checkpoint,
    Ledger,
    Partitions,
    PowerLoss,
    Retention,
    Succession,
)
from harness.controls import trigger_of
from harness.interfaces import System
from harness.model.scenario import Role
from harness.stages.queries import TABLE_FOLDERS

if TYPE_CHECKING:
    from collections.abc import Collection

    from harness.model.cell import Cell

ABILITIES = frozenset(
    {BadNetwork, Checkpoint, Ledger, Partitions, PowerLoss, Retention, Succession}
)


def lacks(cell: Cell) -> str | None:
    """Say why a fault cannot be placed in a cell, or return ``None``."""
    at = trigger_of(cell.scenario.fault)
    if at is not None and at.role == Role.PRODUCER and not cell.scenario.source_goes_on:
        return (
            "the producer fills the topic before the query reads, so no fault is placed at the "
            "producer"
        )
    if cell.scenario.pipeline in TABLE_FOLDERS and cell.runtime != "process":
        return f"the image of runtime {cell.runtime} has no table format"
    return None


def client_versions(_: str, __: str | None) -> Collection[str]:
    """Return the connectors for the installed Spark whose checksums are known."""
    from harness.provision.inside_pyspark import pyspark_version  # noqa: PLC0415 - what fetches is imported when it is asked
    from harness.provision.spark import connectors  # noqa: PLC0415

    return list(connectors(pyspark_version()))


SYSTEM = System(
    name="spark",
    launcher="harness.systems.spark.system:SparkSystem",
    scenarios="harness.scenarios.streaming:STREAMING",
    knowledge="harness.systems.spark.knowledge:KNOWLEDGE",
    clients=("spark-sql-kafka",),
    runtimes=("process", "docker"),
    client_versions=client_versions,
    abilities=lambda _: ABILITIES,
    lacks=lacks,
    transport="kafka",
    by_default=True,
    extra="spark",
)
