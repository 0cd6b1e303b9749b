"""The declaration of the system Pulsar."""

from __future__ import annotations

from harness.abilities import BrokerSettings, TracedWrites
from harness.interfaces import PointsLine, System
from harness.provision.known import known_by

SEMANTICS = (
    "the program sends once, acknowledged before the work",
    "resend, acknowledged after the work",
    "as at-least-once, and the broker deduplicates; the sink absorbs duplicates",
)
POINTS = (
    PointsLine("Pulsar 4.2.4, Python client", "subscription", "pulsar-client", SEMANTICS),
    PointsLine(
        "Pulsar 4.2.4, Java client, acknowledgements answered",
        "subscription",
        "pulsar-java",
        SEMANTICS,
        {
            "delivery-lost": "delivery-lost+answered",
            "commit-lost": "commit-lost+answered",
            "consumer-crash-before-recording": "consumer-crash-before-recording+answered",
            "consumer-crash-before-commit": "consumer-crash-before-commit+answered",
        },
    ),
)


SYSTEM = System(
    name="pulsar",
    launcher="harness.systems.pulsar.system:PulsarSystem",
    clients=("pulsar-client", "pulsar-java"),
    runtimes=("process", "docker"),
    abilities=lambda _: frozenset({BrokerSettings, TracedWrites}),
    versions=known_by("harness.systems.pulsar.install:versions"),
    client_versions=lambda client, _: () if client == "pulsar-java" else None,
    scenarios="harness.scenarios.pulsar:SCENARIOS",
    knowledge="harness.systems.pulsar.knowledge:KNOWLEDGE",
    points=POINTS,
)
