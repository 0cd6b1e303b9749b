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
    Transactions,
)
from harness.interfaces import PointsLine, System
from harness.model.scenario import Deployment

if TYPE_CHECKING:
    from collections.abc import Collection

    from harness.model.cell import Cell
    from harness.model.scenario import Scenario

ALWAYS = frozenset(
    {
        BadNetwork,
        GivingUp,
        Ledger,
        Membership,
        Partitions,
        PowerLoss,
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


def runs(scenario: Scenario) -> bool:
    """Say whether a scenario is of this system."""
    return scenario.pipeline.system == SYSTEM.name


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


def versions() -> Collection[str]:
    """Return the versions for which the checksums of all jars are known."""
    from harness.provision.kafka import kafka_versions  # noqa: PLC0415 - it reads files

    return kafka_versions()


def client_versions(client: str, _: str | None) -> Collection[str] | None:
    """Return the versions of a client whose checksums are known."""
    from harness.provision.clients import known_versions  # noqa: PLC0415 - what fetches is imported when it is asked

    return known_versions(client)


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
    runs=runs,
    abilities=abilities,
    lacks=lacks,
    versions=versions,
    client_versions=client_versions,
    points=POINTS,
    by_default=True,
)
