"""The one broker of a cell: shared with others, or killed, alone or once for several cells."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from harness.model.scenario import Role
from harness.run.nodes import ServerNode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.controls import Target
    from harness.model.history import Event
    from harness.run.controls import WireControls
    from harness.run.parts import Feed
    from harness.run.who import CellNodes
    from harness.systems.kafka.scene import Scene
    from harness.systems.kafka.shared_crash import SharedCrash


class OneBroker:
    """What a cell has to do with its one broker. A part of its ground."""

    def __init__(self, scene: Scene, crash: SharedCrash) -> None:
        self._scene = scene
        self._crash = crash

    def open(self) -> None:
        """Do nothing yet: it is up."""

    def close(self) -> None:
        """Do nothing: it stays."""

    def place_topics(self) -> None:
        """Do nothing: there is one place."""

    def leave(self) -> None:
        """Let those who share its death wait for this cell no more."""
        self._crash.leave(self._scene.cell.id)

    def feed(self, producing: Feed) -> Feed:
        """Return what lets the records flow."""
        return producing

    def servers(self) -> Mapping[Role, Callable[[], Target]]:
        """Return the broker, where the cell has it to itself or dies with others on it."""
        if not self._scene.cell.scenario.deployment.alone:
            return {}
        transport, cell, crash = self._scene.transport, self._scene.cell.id, self._crash
        kill, restart = (
            partial(crash.die, cell, transport.kill_broker),
            partial(crash.come_back, cell, transport.restart_broker),
        )
        node = ServerNode(self._scene.history, transport.broker_process, kill, restart)
        return {Role.BROKER: lambda: node}

    def asker(self, hit: Event) -> str:
        """Return the broker that is meant where it asks itself."""
        return str(hit["node"])

    def abilities(self, controls: WireControls, nodes: CellNodes) -> Mapping[type, object]:
        """Return none: nobody follows one broker."""
        del controls, nodes
        return {}

    def log_trouble(self) -> str | None:
        """Return which partition has an open transaction, or ``None``."""
        return self._scene.log_trouble()

    def observe(self) -> None:
        """Write nothing more: the log has said everything."""
