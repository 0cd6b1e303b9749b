"""What ActiveMQ Artemis declares of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.abilities import Refusal
from harness.interfaces import PointsLine, System

if TYPE_CHECKING:
    from collections.abc import Collection

    from harness.model.scenario import Scenario


def runs(scenario: Scenario) -> bool:
    """Say whether a scenario's pipeline is its own."""
    return scenario.pipeline.system == SYSTEM.name


def versions() -> Collection[str]:
    """Return the versions of which the sums of all jars are known."""
    from harness.systems.artemis.install import RECIPE  # noqa: PLC0415 - what fetches is imported when it is asked

    return RECIPE.versions()


POINTS = (
    PointsLine("Artemis 2.44.0, STOMP", "queue-by-id", "stomp.py", (
        "no receipt, `ack:auto`; ¹ receipt, not sent again, ACK before the work",
        "receipt, sent again; `ack:client-individual`, ACK after the work",
        "the same, and `_AMQ_DUPL_ID`; the sink absorbs what is given twice",
    )),
    PointsLine("Artemis 2.44.0, Core (JMS)", "queue-by-id", "core", (
        "sends do not block, `AUTO_ACKNOWLEDGE` blocks; ¹ sends block, not sent again, acknowledged before the work",
        "sends block, sent again; `INDIVIDUAL_ACKNOWLEDGE` after the work",
        "the same, and `_AMQ_DUPL_ID`; the sink absorbs what is given twice",
    )),
    PointsLine("Artemis 2.44.0, OpenWire", "queue-by-id", "openwire", (
        "sent unanswered, AUTO_ACKNOWLEDGE, which is answered; ¹ answered, not sent again, acknowledged before the work",
        "answered, sent again; acknowledged one by one, after the work",
        "the same, and `_AMQ_DUPL_ID`; the sink absorbs what is given twice",
    )),
    PointsLine("Artemis 2.44.0, AMQP 1.0", "queue-by-id", "amqp", (
        "presettled on both sides; ¹ settled by the broker, not sent again, accepted before the work",
        "settled by the broker, sent again; accepted one by one, after the work",
        "the same, and `_AMQ_DUPL_ID`; the sink absorbs what is given twice",
    )),
)  # fmt: skip
SYSTEM = System(
    name="artemis",
    launcher="harness.systems.artemis.system:launcher",
    clients=("stomp.py", "core", "openwire", "amqp"),
    runtimes=("process", "docker"),
    runs=runs,
    abilities=lambda _: frozenset({Refusal}),
    versions=versions,
    scenarios="harness.scenarios.artemis:SCENARIOS",
    knowledge="harness.systems.artemis.knowledge:KNOWLEDGE",
    points=POINTS,
)
