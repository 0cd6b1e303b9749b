"""The declaration of the system ActiveMQ Artemis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.abilities import Refusal
from harness.interfaces import PointsLine, System

if TYPE_CHECKING:
    from collections.abc import Collection

    from harness.model.scenario import Scenario


def runs(scenario: Scenario) -> bool:
    """Say whether a scenario is of this system."""
    return scenario.pipeline.system == SYSTEM.name


def versions() -> Collection[str]:
    """Return the versions for which the checksums of all jars are known."""
    from harness.systems.artemis.install import RECIPE  # noqa: PLC0415 - what fetches is imported when it is asked

    return RECIPE.versions()


def client_versions(client: str, _: str | None) -> Collection[str] | None:
    """Return the versions of a client whose checksums are known."""
    from harness.provision.clients import known_versions  # noqa: PLC0415 - what fetches is imported when it is asked

    return known_versions(client)


POINTS = (
    PointsLine(
        "Artemis 2.44.0, STOMP",
        "queue-by-id",
        "stomp.py",
        (
            "no receipt, `ack:auto`; ¹ receipt, no resend, ACK before the work",
            "receipt, resend; `ack:client-individual`, ACK after the work",
            "as at-least-once, with `_AMQ_DUPL_ID`; the sink absorbs duplicates",
        ),
    ),
    PointsLine(
        "Artemis 2.44.0, Core (JMS)",
        "queue-by-id",
        "core",
        (
            (
                "sends do not block, `AUTO_ACKNOWLEDGE` blocks; ¹ sends block, no resend, "
                "acknowledged before the work"
            ),
            "sends block, resend; `INDIVIDUAL_ACKNOWLEDGE` after the work",
            "as at-least-once, with `_AMQ_DUPL_ID`; the sink absorbs duplicates",
        ),
    ),
    PointsLine(
        "Artemis 2.44.0, OpenWire",
        "queue-by-id",
        "openwire",
        (
            (
                "sends without an answer, `AUTO_ACKNOWLEDGE` with one; ¹ sends with an answer, no "
                "resend, acknowledged before the work"
            ),
            "sends with an answer, resend; acknowledged one by one after the work",
            "as at-least-once, with `_AMQ_DUPL_ID`; the sink absorbs duplicates",
        ),
    ),
    PointsLine(
        "Artemis 2.44.0, AMQP 1.0",
        "queue-by-id",
        "amqp",
        (
            (
                "presettled on both sides; ¹ settled by the broker, no resend, accepted before the "
                "work"
            ),
            "settled by the broker, resend; accepted one by one after the work",
            "as at-least-once, with `_AMQ_DUPL_ID`; the sink absorbs duplicates",
        ),
    ),
)
SYSTEM = System(
    name="artemis",
    launcher="harness.systems.artemis.system:launcher",
    clients=("stomp.py", "core", "openwire", "amqp"),
    runtimes=("process", "docker"),
    extra="queues",
    runs=runs,
    abilities=lambda _: frozenset({Refusal}),
    versions=versions,
    client_versions=client_versions,
    scenarios="harness.scenarios.artemis:SCENARIOS",
    knowledge="harness.systems.artemis.knowledge:KNOWLEDGE",
    points=POINTS,
)
