"""The recipe for installing ActiveMQ Classic (7 MB)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from harness.provision.server import Recipe

RECIPE: Final = Recipe(
    "activemq",
    "6.3.1",
    Path(__file__).parent / "ClassicBroker.java",
    "lostack.ClassicBroker",
    beside=("amqp",),
)
