"""The declaration of the system Pulsar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.interfaces import PointsLine, System

if TYPE_CHECKING:
    from collections.abc import Collection

    from harness.model.scenario import Scenario


def runs(scenario: Scenario) -> bool:
    """Say whether a scenario is of this system."""
    return scenario.pipeline.system == SYSTEM.name


def versions() -> Collection[str]:
    """Return the versions for which the checksums of all jars are known."""
    from harness.systems.pulsar.install import versions as known  # noqa: PLC0415 - it reads files

    return known()


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
    runs=runs,
    abilities=lambda _: frozenset(),
    versions=versions,
    client_versions=lambda client, _: () if client == "pulsar-java" else None,
    scenarios="harness.scenarios.pulsar:SCENARIOS",
    knowledge="harness.systems.pulsar.knowledge:KNOWLEDGE",
    points=POINTS,
)
