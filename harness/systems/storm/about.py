"""The declaration of the system Storm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.interfaces import System
from harness.systems.storm.settings import NAME

if TYPE_CHECKING:
    from collections.abc import Collection


ABILITIES: Final[frozenset[type]] = frozenset()


def client_versions(_: str, __: str | None) -> Collection[str]:
    """Return the versions to which the Kafka client of a topology can be pinned."""
    from harness.systems.storm.install import client_versions as known  # noqa: PLC0415 - what fetches is imported when it is asked

    return known()


SYSTEM = System(
    name=NAME,
    launcher="harness.systems.storm.system:StormSystem",
    scenarios="harness.scenarios.storm:STORM",
    knowledge="harness.systems.storm.knowledge:KNOWLEDGE",
    clients=("storm-kafka-client",),
    client_versions=client_versions,
    abilities=lambda _: ABILITIES,
    transport="kafka",
)
