"""The declaration of the system Storm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.interfaces import System
from harness.systems.storm.settings import NAME

if TYPE_CHECKING:
    from harness.model.scenario import Scenario

ABILITIES: Final[frozenset[type]] = frozenset()


def runs(scenario: Scenario) -> bool:
    """Say whether a scenario is a Storm topology on one broker."""
    return scenario.pipeline.system == NAME and not scenario.deployment.clustered


SYSTEM = System(
    name=NAME,
    launcher="harness.systems.storm.system:StormSystem",
    scenarios="harness.scenarios.storm:STORM",
    knowledge="harness.systems.storm.knowledge:KNOWLEDGE",
    clients=("storm-kafka-client",),
    runs=runs,
    abilities=lambda _: ABILITIES,
    transport="kafka",
)
