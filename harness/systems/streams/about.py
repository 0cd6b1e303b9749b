"""The declaration of the system Kafka Streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.abilities import (
    LocalState,
    Membership,
    Rebalance,
    Supervision,
    Termination,
    Transactions,
)
from harness.interfaces import PointsLine, System
from harness.systems.streams.settings import NAME

if TYPE_CHECKING:
    from collections.abc import Collection

    from harness.model.scenario import Scenario

ABILITIES = frozenset({LocalState, Membership, Rebalance, Supervision, Termination, Transactions})
_SEMANTICS = ("not offered", "`at_least_once`", "`exactly_once_v2`")
POINTS = (
    PointsLine(
        "Kafka Streams 4.4.0, commits of offsets",
        "streams-map",
        "kafka-streams",
        _SEMANTICS,
        {
            "commit-lost": "streams-crash-before-offset-commit",
            "commit-ack-lost": "streams-crash-after-offset-commit",
            "consumer-crash-before-commit": "streams-crash-after-output",
        },
    ),
    PointsLine(
        "Kafka Streams 4.4.0, commits of transactions",
        "streams-map",
        "kafka-streams",
        _SEMANTICS,
        {
            "commit-lost": "streams-crash-before-commit",
            "commit-ack-lost": "streams-crash-before-commit-ack",
            "consumer-crash-before-commit": "streams-crash-after-output",
        },
    ),
)


def runs(scenario: Scenario) -> bool:
    """Say whether a scenario is a Kafka Streams application on one broker."""
    return scenario.pipeline.system == NAME and not scenario.deployment.clustered


def versions() -> Collection[str]:
    """Return the versions for which the checksums of all jars are known."""
    from harness.systems.streams.install import versions as known  # noqa: PLC0415 - what fetches is imported when it is asked

    return known()


SYSTEM = System(
    name=NAME,
    launcher="harness.systems.streams.system:StreamsSystem",
    scenarios="harness.scenarios.streams:STREAMS",
    knowledge="harness.systems.streams.knowledge:KNOWLEDGE",
    clients=("kafka-streams",),
    runtimes=("process", "docker"),
    versions=versions,
    client_versions=lambda _, __: versions(),
    runs=runs,
    abilities=lambda _: ABILITIES,
    transport="kafka",
    points=POINTS,
)
