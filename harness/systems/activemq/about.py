"""The declaration of the system ActiveMQ Classic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.abilities import BrokerSettings, TracedWrites
from harness.interfaces import System
from harness.model.cell import client_name
from harness.provision.known import known_by, of_client
from harness.systems.activemq.abilities import Compaction
from harness.systems.queue_points import queue_points

if TYPE_CHECKING:
    from harness.model.cell import Cell


def lacks(cell: Cell) -> str | None:
    """Say why a version of the broker cannot speak a client's protocol, or return ``None``."""
    from harness.systems.activemq.install import RECIPE  # noqa: PLC0415 - what fetches is imported when it is asked

    client, version = client_name(cell.client), cell.system.partition("==")[2] or RECIPE.version
    if client in RECIPE.beside and client not in RECIPE.lists(version):
        return f"lostack has no checksums of the jars with which {version} speaks {client.upper()}"
    return None


CLIENTS = ("stomp.py", "openwire", "amqp")
POINTS = tuple(
    queue_points(
        "ActiveMQ Classic 6.3.1", "queue", CLIENTS, "as at-least-once; the sink absorbs duplicates"
    )
)
SYSTEM = System(
    name="activemq",
    launcher="harness.systems.activemq.system:launcher",
    clients=CLIENTS,
    runtimes=("process", "docker"),
    extra="queues",
    abilities=lambda _: frozenset({BrokerSettings, Compaction, TracedWrites}),
    versions=known_by("harness.systems.activemq.install:RECIPE.versions"),
    client_versions=of_client,
    lacks=lacks,
    scenarios="harness.scenarios.activemq:SCENARIOS",
    knowledge="harness.systems.activemq.knowledge:KNOWLEDGE",
    points=POINTS,
)
