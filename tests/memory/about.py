"""The declaration of the in-memory system."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.abilities import ABILITIES
from harness.interfaces import System

if TYPE_CHECKING:
    from harness.model.scenario import Scenario


def runs(scenario: Scenario) -> bool:
    """Say whether it can simulate a scenario: it simulates outcomes, not protocols, clusters or
    servers.
    """
    need = scenario.deployment
    ours = scenario.pipeline.system == "kafka"
    real = scenario.pipeline.on_server or need.clustered or need.security
    return ours and not real and scenario.group != "transactions"


SYSTEM = System(
    name="memory",
    launcher="tests.memory.system:launch",
    clients=("kafka-python",),
    runs=runs,
    abilities=lambda _: ABILITIES,  # it simulates a fault's outcome, so it needs no ability
    simulated=True,
)
