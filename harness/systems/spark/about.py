"""The declaration of the system Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.abilities import BadNetwork, Checkpoint, Ledger, Partitions, PowerLoss, Retention, Succession
from harness.interfaces import System
from harness.systems.kafka.about import without_server

if TYPE_CHECKING:
    from harness.model.scenario import Scenario

ABILITIES = frozenset({BadNetwork, Checkpoint, Ledger, Partitions, PowerLoss, Retention, Succession})


def runs(scenario: Scenario) -> bool:
    """Say whether a scenario is a streaming query on one broker."""
    return scenario.pipeline.system == SYSTEM.name and not scenario.deployment.clustered


SYSTEM = System(
    name="spark",
    launcher="harness.systems.spark.system:SparkSystem",
    scenarios="harness.scenarios.streaming:STREAMING",
    knowledge="harness.systems.spark.knowledge:KNOWLEDGE",
    clients=("spark-sql-kafka",),
    runtimes=("process", "docker"),
    runs=runs,
    abilities=lambda _: ABILITIES,
    lacks=without_server,
    transport="kafka",
    by_default=True,
)
