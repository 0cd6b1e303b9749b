"""What Kafka Streams declares of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.abilities import LocalState, Membership, Rebalance, Supervision, Transactions
from harness.interfaces import System
from harness.systems.streams.settings import NAME

if TYPE_CHECKING:
    from harness.model.scenario import Scenario

ABILITIES = frozenset({LocalState, Membership, Rebalance, Supervision, Transactions})


def runs(scenario: Scenario) -> bool:
    """Whether a scenario's pipeline is a Kafka Streams application, on one broker."""
    return scenario.pipeline.system == NAME and not scenario.deployment.clustered


SYSTEM = System(
    name=NAME,
    launcher="harness.systems.streams.system:StreamsSystem",
    scenarios="harness.scenarios.streams:STREAMS",
    knowledge="harness.systems.streams.knowledge:KNOWLEDGE",
    clients=("kafka-streams",),
    runs=runs,
    abilities=lambda _: ABILITIES,
    transport="kafka",
)
