"""NATS JetStream as a system under test."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from harness.run.queue_launcher import QueueLauncher
from lostack_nats.broker import NatsServer
from lostack_nats.install import SERVER
from lostack_nats.steps import ACTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from harness.protocols.acts import Act
    from harness.wire.rules import StepName


class NatsSystem(QueueLauncher):
    """NATS JetStream: one server."""

    words: ClassVar[Mapping[Act, StepName]] = ACTS

    def __init__(self, runtime: str = "process", version: str | None = None) -> None:
        super().__init__(runtime, version)
        self._program: Path | None = None

    @property
    def name(self) -> str:
        """The system's name, with the version if one was chosen."""
        return "nats" if self.version is None else f"nats=={self.version}"

    def prepare(self, say: Callable[[str], None]) -> None:
        """Fetch the server (7 MB), unless it is there."""
        self._program = SERVER.ensure(say, self.version)

    def broker(self, directory: Path) -> NatsServer:
        """Return a server that is not started yet.

        Raises:
            RuntimeError: :meth:`prepare` was not called.
        """
        if self._program is None:
            raise RuntimeError("prepare() comes first")
        return NatsServer(self._program, directory, self.settings)

    def own_versions(self) -> Mapping[str, str]:
        """Return the version of the server."""
        return {} if self._program is None else {self.name: self.version or SERVER.version}
