"""The declaration of the system ActiveMQ Classic."""

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
    """Say whether a scenario is of this system."""
    return scenario.pipeline.system == SYSTEM.name


def versions() -> Collection[str]:
    """Return the versions for which the checksums of all jars are known."""
    from harness.systems.activemq.install import RECIPE  # noqa: PLC0415 - what fetches is imported when it is asked

    return RECIPE.versions()


def client_versions(client: str, _: str | None) -> Collection[str] | None:
    """Return the versions of a client whose checksums are known."""
    from harness.provision.clients import known_versions  # noqa: PLC0415 - what fetches is imported when it is asked

    return known_versions(client)


def lacks(cell: Cell) -> str | None:
    """Say why a version of the broker cannot speak a client's protocol, or return ``None``."""
    from harness.systems.activemq.install import RECIPE  # noqa: PLC0415 - what fetches is imported when it is asked

    client, version = client_name(cell.client), cell.system.partition("==")[2] or RECIPE.version
    if client in RECIPE.beside and client not in RECIPE.lists(version):
        return f"lostack has no checksums of the jars with which {version} speaks {client.upper()}"
    return None


POINTS = (
    PointsLine(
        "ActiveMQ Classic 6.3.1, STOMP",
        "queue",
        "stomp.py",
        (
            "no receipt, `ack:auto`; ¹ receipt, no resend, ACK before the work",
            "receipt, resend; `ack:client-individual`, ACK after the work",
            "as at-least-once; the sink absorbs duplicates",
        ),
    ),
    PointsLine(
        "ActiveMQ Classic 6.3.1, OpenWire",
        "queue",
        "openwire",
        (
            (
                "sends without an answer, `AUTO_ACKNOWLEDGE` with one; ¹ sends with an answer, no "
                "resend, acknowledged before the work"
            ),
            "sends with an answer, resend; acknowledged one by one after the work",
            "as at-least-once; the sink absorbs duplicates",
        ),
    ),
    PointsLine(
        "ActiveMQ Classic 6.3.1, AMQP 1.0",
        "queue",
        "amqp",
        (
            (
                "presettled on both sides; ¹ settled by the broker, no resend, accepted before the "
                "work"
            ),
            "settled by the broker, resend; accepted one by one after the work",
            "as at-least-once; the sink absorbs duplicates",
        ),
    ),
)
SYSTEM = System(
    name="activemq",
    launcher="harness.systems.activemq.system:launcher",
    clients=("stomp.py", "openwire", "amqp"),
    runtimes=("process", "docker"),
    extra="queues",
    runs=runs,
    abilities=lambda _: frozenset({Compaction}),
    versions=versions,
    client_versions=client_versions,
    lacks=lacks,
    scenarios="harness.scenarios.activemq:SCENARIOS",
    knowledge="harness.systems.activemq.knowledge:KNOWLEDGE",
    points=POINTS,
)
