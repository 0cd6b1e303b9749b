"""What ActiveMQ Classic declares of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.interfaces import PointsLine, System
from harness.model.cell import client_name
from harness.systems.activemq.abilities import Compaction

if TYPE_CHECKING:
    from collections.abc import Collection

    from harness.model.cell import Cell
    from harness.model.scenario import Scenario


def runs(scenario: Scenario) -> bool:
    """Say whether a scenario's pipeline is its own."""
    return scenario.pipeline.system == SYSTEM.name


def versions() -> Collection[str]:
    """Return the versions of which the sums of all jars are known."""
    from harness.systems.activemq.install import RECIPE  # noqa: PLC0415 - what fetches is imported when it is asked

    return RECIPE.versions()


def lacks(cell: Cell) -> str | None:
    """Say why a version cannot be spoken to."""
    from harness.systems.activemq.install import RECIPE  # noqa: PLC0415 - what fetches is imported when it is asked

    client, version = client_name(cell.client), cell.system.partition("==")[2] or RECIPE.version
    if client in RECIPE.beside and client not in RECIPE.lists(version):
        return f"the sums of what lets {version} speak {client.upper()} are not known"
    return None


POINTS = (
    PointsLine("ActiveMQ Classic 6.3.1, STOMP", "queue", "stomp.py", (
        "no receipt, `ack:auto`; ¹ receipt, not sent again, ACK before the work",
        "receipt, sent again; `ack:client-individual`, ACK after the work",
        "the same; the sink absorbs what it has",
    )),
    PointsLine("ActiveMQ Classic 6.3.1, OpenWire", "queue", "openwire", (
        "sent unanswered, AUTO_ACKNOWLEDGE, which is answered; ¹ answered, not sent again, acknowledged before the work",
        "answered, sent again; acknowledged one by one, after the work",
        "the same; the sink absorbs what it has",
    )),
    PointsLine("ActiveMQ Classic 6.3.1, AMQP 1.0", "queue", "amqp", (
        "presettled on both sides; ¹ settled by the broker, not sent again, accepted before the work",
        "settled by the broker, sent again; accepted one by one, after the work",
        "the same; the sink absorbs what it has",
    )),
)  # fmt: skip
SYSTEM = System(
    name="activemq",
    launcher="harness.systems.activemq.system:launcher",
    clients=("stomp.py", "openwire", "amqp"),
    runtimes=("process", "docker"),
    runs=runs,
    abilities=lambda _: frozenset({Compaction}),
    versions=versions,
    lacks=lacks,
    scenarios="harness.scenarios.activemq:SCENARIOS",
    knowledge="harness.systems.activemq.knowledge:KNOWLEDGE",
    points=POINTS,
)
