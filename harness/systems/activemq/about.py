"""What ActiveMQ Classic declares of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.interfaces import System

if TYPE_CHECKING:
    from collections.abc import Collection

    from harness.model.scenario import Scenario


def runs(scenario: Scenario) -> bool:
    """Whether a scenario's pipeline is its own."""
    return scenario.pipeline.system == SYSTEM.name


def versions() -> Collection[str]:
    """Return the versions of which the sums of all jars are known."""
    from harness.systems.activemq.install import versions as known  # noqa: PLC0415 - it reads files

    return known()


SYSTEM = System(
    name="activemq",
    launcher="harness.systems.activemq.system:ActiveMQ",
    clients=("stomp.py",),
    runs=runs,
    abilities=lambda _: frozenset(),
    versions=versions,
    scenarios="harness.scenarios.activemq:SCENARIOS",
    knowledge="harness.systems.activemq.knowledge:KNOWLEDGE",
)
