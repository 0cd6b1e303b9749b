"""The declaration of the system Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.abilities import (
    BadNetwork,
    Containers,
    GivingUp,
    Leadership,
    Ledger,
    Membership,
    Partitions,
    PowerLoss,
    Rebalance,
    RecordLocks,
    Replication,
    RestartInTurn,
    SavedPositions,
    SessionClock,
    Succession,
    Supervision,
    TracedWrites,
    Transactions,
)
from harness.interfaces import PointsLine, System
from harness.model.scenario import Deployment
from harness.provision.known import known_by, of_client

if TYPE_CHECKING:
    from collections.abc import Collection

    from harness.model.cell import Cell

ALWAYS = frozenset(
    {
        BadNetwork,
        GivingUp,
        Ledger,
        Membership,
        Partitions,
        PowerLoss,
        TracedWrites,
        Rebalance,
        RecordLocks,
        SavedPositions,
        SessionClock,
        Succession,
        Supervision,
        Transactions,
    }
)
IN_A_CLUSTER = frozenset({Leadership, Replication, RestartInTurn})


def abilities(cell: Cell) -> Collection[type]:
    """Return the abilities of a cell; a cluster and containers add some."""
    clustered = IN_A_CLUSTER if cell.scenario.deployment.clustered else frozenset()
    return ALWAYS | clustered | ({Containers} if cell.runtime == "docker" else set())


def lacks(cell: Cell) -> str | None:
    """Say why a cell cannot run in its runtime, or return ``None``."""
    if cell.scenario.deployment is Deployment.APART and cell.runtime != "process":
        return "a controller apart from the brokers runs only in runtime process so far"
    if cell.scenario.deployment.security and cell.runtime != "process":
        return "brokers with TLS or SASL run only in runtime process so far"
    return None


POINTS = (
    PointsLine(
        "Kafka 4.4.0",
        "plain",
        "kafka-python",
        (
            "acks=1, no retries; position committed before the work",
            "acks=all, retries; position committed after the work",
            "transactions; the sink absorbs duplicates",
        ),
    ),
    PointsLine(
        "Kafka 4.4.0, share group",
        "shared",
        "java",
        (
            "acknowledged before the work",
            "acknowledged after the work",
            "as at-least-once; the sink absorbs duplicates",
        ),
        {
            "delivery-lost": "share-delivery-lost",
            "commit-lost": "share-crash-before-acknowledgement-arrives",
            "commit-ack-lost": "share-crash-before-acknowledgement-answered",
            "consumer-crash-before-recording": "share-crash-before-recording",
            "consumer-crash-before-commit": "share-crash-before-acknowledging",
        },
    ),
)
SYSTEM = System(
    name="kafka",
    launcher="harness.systems.kafka.system:KafkaSystem",
    scenarios="harness.scenarios:KAFKA",
    knowledge="harness.systems.kafka.knowledge:KNOWLEDGE",
    clients=("kafka-python", "confluent-kafka", "java"),
    runtimes=("process", "docker"),
    image="kafka",
    abilities=abilities,
    lacks=lacks,
    versions=known_by("harness.provision.kafka:kafka_versions"),
    client_versions=of_client,
    points=POINTS,
    by_default=True,
)
