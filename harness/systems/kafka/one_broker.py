"""A cell on a single broker: shared with other cells, or killed, for this cell or once for several
cells.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from harness.model.scenario import Role
from harness.run.nodes import ServerNode
from harness.run.parts import FeedAfter
from harness.systems.kafka.shared_crash import SharedCrash

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.controls import Target
    from harness.model.events import Rule
    from harness.run.controls import WireControls
    from harness.run.parts import Feed
    from harness.systems.kafka.scene import Scene


class OneBroker:
    """Gives a cell its one broker. ``crash``: the death of this broker that cells share; ``None``:
    the cell dies alone.
    """

    def __init__(self, scene: Scene, crash: SharedCrash | None = None) -> None:
        self._scene = scene
        self._crash = crash or SharedCrash(())

    def open(self) -> None:
        """Do nothing: the broker is up."""

    def close(self) -> None:
        """Do nothing: the broker stays up."""

    def place_topics(self) -> None:
        """Do nothing: all partitions are on the one broker."""

    def leave(self) -> None:
        """Tell the cells that share the broker's crash not to wait for this cell."""
        self._crash.leave(self._scene.cell.id)

    def feed(self, producing: Feed) -> Feed:
        """Return a feed that first waits until all cells that share the broker's crash are
        prepared.
        """
        return FeedAfter(partial(self._crash.begin, self._scene.cell.id), producing)

    def servers(self) -> Mapping[Role, Callable[[], Target]]:
        """Return the broker as a target, if this cell may kill it."""
        if not self._scene.cell.scenario.deployment.alone:
            return {}
        transport, cell, crash = self._scene.transport, self._scene.cell.id, self._crash
        kill = partial(crash.die, cell, transport.kill_broker)
        restart = partial(crash.come_back, cell, transport.restart_broker)
        node = ServerNode(self._scene.history, transport.broker_process, kill, restart)
        return {Role.BROKER: lambda: node}

    def asker(self, hit: Rule) -> str:
        """Return the node of a hit between brokers, which is this broker itself."""
        return str(hit.node)

    def abilities(self) -> Mapping[type, Callable[[WireControls], object]]:
        """Return nothing: one broker has no replicas and no leader election."""
        return {}

    def log_trouble(self) -> str | None:
        """Say which partition has an open transaction, or return ``None``."""
        return self._scene.log_trouble()

    def observe(self) -> None:
        """Do nothing: the log says everything."""
