"""What Flink declares of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.interfaces import System
from harness.systems.flink.abilities import ABILITIES

if TYPE_CHECKING:
    from harness.model.scenario import Scenario


def runs(scenario: Scenario) -> bool:
    """Whether a scenario's pipeline is a job of it, on one broker."""
    return scenario.pipeline.system == SYSTEM.name and not scenario.deployment.clustered


SYSTEM = System(
    name="flink",
    launcher="harness.systems.flink.system:FlinkSystem",
    scenarios="harness.scenarios.flink:FLINK",
    knowledge="harness.systems.flink.knowledge:KNOWLEDGE",
    clients=("flink-connector-kafka",),
    runs=runs,
    abilities=lambda _: ABILITIES,
    transport="kafka",
)
