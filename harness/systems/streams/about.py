"""The declaration of the system Kafka Streams."""

from __future__ import annotations

from harness.abilities import (
    LocalState,
    Membership,
    Rebalance,
    Supervision,
    Termination,
    Transactions,
)
from harness.interfaces import PointsLine, System
from harness.provision.known import known_by
from harness.systems.streams.settings import NAME

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


VERSIONS = known_by("harness.systems.streams.install:versions")
SYSTEM = System(
    name=NAME,
    launcher="harness.systems.streams.system:StreamsSystem",
    scenarios="harness.scenarios.streams:STREAMS",
    knowledge="harness.systems.streams.knowledge:KNOWLEDGE",
    clients=("kafka-streams",),
    runtimes=("process", "docker"),
    versions=VERSIONS,
    client_versions=lambda _, __: VERSIONS(),
    abilities=lambda _: ABILITIES,
    transport="kafka",
    points=POINTS,
)
