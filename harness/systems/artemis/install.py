"""The recipe for installing ActiveMQ Artemis (17 MB)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from harness.provision.server import Recipe

RECIPE: Final = Recipe(
    "artemis",
    "2.44.0",
    Path(__file__).parent / "ArtemisBroker.java",
    "lostack.ArtemisBroker",
    beside=("openwire", "amqp"),
)
