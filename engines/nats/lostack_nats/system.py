"""NATS JetStream as a system under test."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from harness.run.queue_launcher import WheelLauncher
from lostack_nats.broker import NatsServer
from lostack_nats.install import SERVER
from lostack_nats.steps import ACTS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from harness.protocols.acts import Act
    from harness.wire.rules import StepName


class NatsSystem(WheelLauncher):
    """NATS JetStream: one server, or three."""

    called, server = "nats", SERVER
    words: ClassVar[Mapping[Act, StepName]] = ACTS

    def broker(self, directory: Path) -> NatsServer:
        """Return a server that is not started yet."""
        return NatsServer(self.program, directory, self.settings)

    def cluster(self, directory: Path) -> NatsServer:
        """Return three servers that are not started yet."""
        return NatsServer(self.program, directory, self.settings, size=3)
