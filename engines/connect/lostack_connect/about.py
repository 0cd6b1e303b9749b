"""The declaration of the system Kafka Connect."""

from __future__ import annotations

from typing import Final

from harness.abilities import Membership
from harness.interfaces import System
from harness.provision.known import known_by
from lostack_connect.faults import Tasks
from lostack_connect.settings import POINTS

VERSIONS: Final = known_by("lostack_connect.install:versions")
SYSTEM: Final = System(
    name="connect",
    launcher="lostack_connect.system:ConnectSystem",
    scenarios="lostack_connect.scenarios:SCENARIOS",
    knowledge="lostack_connect.knowledge:KNOWLEDGE",
    clients=("connect",),
    versions=VERSIONS,
    abilities=lambda _: frozenset({Membership, Tasks}),
    transport="kafka",
    points=POINTS,
)
