"""The declaration of the system ActiveMQ Artemis."""

from __future__ import annotations

from harness.abilities import BrokerSettings, Refusal, TracedWrites
from harness.interfaces import System
from harness.provision.known import known_by, of_client
from harness.systems.queue_points import queue_points

CLIENTS = ("stomp.py", "core", "openwire", "amqp")
POINTS = tuple(
    queue_points(
        "Artemis 2.44.0",
        "queue-by-id",
        CLIENTS,
        "as at-least-once, with `_AMQ_DUPL_ID`; the sink absorbs duplicates",
    )
)
SYSTEM = System(
    name="artemis",
    launcher="harness.systems.artemis.system:launcher",
    clients=CLIENTS,
    runtimes=("process", "docker"),
    extra="queues",
    abilities=lambda _: frozenset({BrokerSettings, Refusal, TracedWrites}),
    versions=known_by("harness.systems.artemis.install:RECIPE.versions"),
    client_versions=of_client,
    scenarios="harness.scenarios.artemis:SCENARIOS",
    knowledge="harness.systems.artemis.knowledge:KNOWLEDGE",
    points=POINTS,
)
