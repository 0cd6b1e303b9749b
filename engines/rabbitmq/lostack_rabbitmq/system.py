"""RabbitMQ as a system under test."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from harness.model.cell import client_name
from harness.model.failures import EnvironmentFailure
from harness.protocols.stomp import steps as stomp
from harness.run.queue_launcher import QueueLauncher
from harness.stages.clients import STOMP_PY
from lostack_rabbitmq.broker import STOMP, RabbitServer
from lostack_rabbitmq.install import Installed, look
from lostack_rabbitmq.steps import ACTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.protocols.acts import Act
    from harness.run.queue_served import QueueServed
    from harness.wire.rules import StepName


class RabbitSystem(QueueLauncher):
    """RabbitMQ: one node of the server that is installed here."""

    words: ClassVar[Mapping[Act, StepName]] = ACTS
    name = "rabbitmq"
    own_at_once = 1
    """A node takes both cores while it starts."""

    def __init__(self, runtime: str = "process", version: str | None = None) -> None:
        super().__init__(runtime, version)
        self._found: Installed | None = None

    def prepare(self, say: Callable[[str], None]) -> None:  # noqa: ARG002 - nothing is fetched
        """Find the server.

        Raises:
            EnvironmentFailure: none is here that can be tried. The message is one line.
        """
        found = look()
        if isinstance(found, str):
            raise EnvironmentFailure(found)
        self._found = found

    def broker(self, directory: Path) -> RabbitServer:
        """Return a node that is not started yet.

        Raises:
            RuntimeError: :meth:`prepare` was not called.
        """
        if self._found is None:
            raise RuntimeError("prepare() comes first")
        return RabbitServer(self._found, directory, self.settings)

    def seen(self, broker: QueueServed, cell: Cell) -> QueueServed:
        """Return a node as the client of a cell sees it."""
        return broker.speaking(STOMP) if _over_stomp(cell) else broker

    def written(self, queue: str, cell: Cell) -> str:
        """Return a queue's name as stages write it: over STOMP, that of one that is there."""
        return f"/amq{queue}" if _over_stomp(cell) else queue

    def words_of(self, cell: Cell) -> Mapping[Act, StepName]:
        """Return the step that each act means in a cell."""
        return stomp.ACTS if _over_stomp(cell) else ACTS

    def own_versions(self) -> Mapping[str, str]:
        """Return the versions of the server and of Erlang."""
        found = self._found
        return {} if found is None else {self.name: found.version, "erlang": found.release}


def _over_stomp(cell: Cell) -> bool:
    return client_name(cell.client) == STOMP_PY
