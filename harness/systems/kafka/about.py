"""What Kafka declares of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.abilities import (
    BadNetwork,
    Containers,
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

ALWAYS = frozenset({
    BadNetwork, Ledger, Membership, Partitions, PowerLoss, Rebalance, RecordLocks, SavedPositions, SessionClock, Succession,
    Supervision, Transactions,
})  # fmt: skip
IN_A_CLUSTER = frozenset({Leadership, Replication, RestartInTurn})


def runs(scenario: Scenario) -> bool:
    """Say whether a scenario's pipeline is one of our own stages."""
    return scenario.pipeline.system == SYSTEM.name


def abilities(cell: Cell) -> Collection[type]:
    """Return what can be asked of a cell: more of one on a cluster, and of one in containers."""
    clustered = IN_A_CLUSTER if cell.scenario.deployment.clustered else frozenset()
    return ALWAYS | clustered | ({Containers} if cell.runtime == "docker" else set())


def lacks(cell: Cell) -> str | None:
    """Say why a cell does not apply in its runtime, or on this machine."""
    if cell.scenario.deployment is Deployment.APART and cell.runtime != "process":
        return "a controller apart from the brokers runs in runtime process only, so far"
    if cell.scenario.deployment.security and cell.runtime != "process":
        return "brokers that clients log in to, or speak TLS with, run in runtime process only, so far"
    return without_server(cell)


def without_server(cell: Cell) -> str | None:
    """Say that this machine has no database server for a cell that needs one. Containers bring their own."""
    from harness.provision.postgres import why_no_postgres  # noqa: PLC0415 - it looks at the machine

    needed = cell.scenario.pipeline.on_server and cell.runtime == "process"
    return why_no_postgres() if needed else None


def versions() -> Collection[str]:
    """Return the versions of which the sums of all jars are known."""
    from harness.provision.kafka import kafka_versions  # noqa: PLC0415 - it reads files

    return kafka_versions()


POINTS = (
    PointsLine("Kafka 4.3.0", "plain", "kafka-python", (
        "acks=1, no retries; position committed before the work", "acks=all, retries; position committed after the work",
        "transactions; the sink absorbs what it has",
    )),
    PointsLine("Kafka 4.3.0, share group", "shared", "java", (
        "acknowledged before the work", "acknowledged after the work", "the same; the sink absorbs what it has",
    ), {
        "delivery-lost": "share-delivery-lost", "commit-lost": "share-crash-before-acknowledgement-arrives",
        "commit-ack-lost": "share-crash-before-acknowledgement-answered",
        "consumer-crash-before-recording": "share-crash-before-recording",
        "consumer-crash-before-commit": "share-crash-before-acknowledging",
    }),
)  # fmt: skip
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
    points=POINTS,
    by_default=True,
)
