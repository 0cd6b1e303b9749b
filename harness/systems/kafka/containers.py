"""Faults that only containers can have, for the nodes of a Kafka cell. The history quotes the
container engine.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.abilities import Containers
from harness.model import events as kinds
from harness.model.events import FaultPhase
from harness.model.harms import Harm
from harness.model.waiting import wait_until
from harness.proofs.engine import EngineReport
from harness.run.nodes import ServerNode, StageNode
from harness.runtimes.interface import Contained

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.controls import Target
    from harness.model.scenario import Role
    from harness.runtimes.interface import Node
    from harness.systems.kafka.scene import Scene

GIVEN_UP_S = 60.0
ESTABLISHED = "01"
"""The state of an established connection in ``/proc/PID/net/tcp``."""
NO_SPACE = "No space left on device"
LAST_WORDS = 400
"""How many lines of a log are searched for the reason of an end."""


@dataclass
class CellContainers(Containers):
    """Harms the containers of one cell. ``target``: finds the node of a role."""

    scene: Scene
    target: Callable[[Role], Target]
    connections: frozenset[str] = frozenset()
    """The connections that a node had when it was disconnected."""

    def apply(self, harm: Harm, role: Role) -> str:
        """Harm the container of a role; return the name of its node."""
        node = self._struck(role)
        self._do(harm, node)
        return node.name

    def mend(self, harm: Harm, role: Role) -> None:
        """Undo the harm. A node without a network gets it back once the node has given up a
        connection.
        """
        node = self._struck(role)
        if harm is Harm.NETWORK:
            self._await_given_up(node)
        self._heal(harm, node)

    def _struck(self, role: Role) -> ServerNode | StageNode:
        node = self.target(role)
        if not isinstance(node, ServerNode | StageNode):
            raise TypeError(f"{node.name} is neither a server nor a stage, so it has no container")
        return node

    def _do(self, harm: Harm, node: ServerNode | StageNode) -> None:
        match harm:
            case Harm.MEMORY:
                self._starve(node)
            case Harm.CONTAINER:
                node.kill()
            case Harm.VOLUME:
                node.kill()
                self._lose_volume(node)
            case Harm.NETWORK:
                self._cut_off(node)
            case Harm.DISK:
                self._fill(node)

    def _heal(self, harm: Harm, node: ServerNode | StageNode) -> None:
        match harm:
            case Harm.MEMORY:
                node.restart()
            case Harm.CONTAINER:
                self._replace(node)
            case Harm.VOLUME:
                self._replace(node)
                self.scene.make_topics()
            case Harm.NETWORK:
                self.scene.history.write(
                    kinds.Engine(
                        said=EngineReport.CONNECTED,
                        node=node.name,
                        address=self._contained(node).connect(),
                    )
                )
            case Harm.DISK:
                self._empty(node)
                node.restart()

    def _fill(self, node: ServerNode | StageNode) -> None:
        contained, ended = self._contained(node), _node(node)
        full = contained.fill_disk()
        # it is already dead: this writes down how it ended, and lets the wire refuse connections
        node.kill()
        words = (
            line.strip() for line in ended.log_tail(LAST_WORDS).splitlines() if NO_SPACE in line
        )
        self.scene.history.write(
            kinds.Engine(
                said=EngineReport.DISK_FULL,
                node=node.name,
                volume=self._volume.name,
                size=full.size,
                free=full.free,
                status=ended.exit.status if ended.exit else None,
                because=next(words, None),
            )
        )

    def _empty(self, node: ServerNode | StageNode) -> None:
        room = self._contained(node).empty_disk()
        self.scene.history.write(
            kinds.Engine(
                said=EngineReport.DISK_EMPTIED,
                node=node.name,
                volume=self._volume.name,
                size=room.size,
                free=room.free,
            )
        )

    def _replace(self, node: ServerNode | StageNode) -> None:
        before = self._contained(node)
        before.discard()
        node.restart()
        after = self._contained(node)
        self.scene.history.write(
            kinds.Engine(
                said=EngineReport.NEW_CONTAINER,
                node=node.name,
                before=before.container_id,
                after=after.container_id,
                volume=self._volume.name,
            )
        )

    def _starve(self, node: ServerNode | StageNode) -> None:
        contained = self._contained(node)
        limit = contained.starve()
        # it is already dead: this writes down how it ended, and lets the wire refuse connections
        node.kill()
        if contained.oom_killed:
            self.scene.history.write(
                kinds.Engine(said=EngineReport.OOM_KILLED, node=node.name, limit=limit)
            )

    def _lose_volume(self, node: ServerNode | StageNode) -> None:
        volume = self._volume
        size = sum(file.stat().st_size for file in volume.rglob("*") if file.is_file())
        for each in volume.iterdir():
            if each.is_dir():
                shutil.rmtree(each)
            else:
                each.unlink()
        self.scene.history.write(
            kinds.Fault(
                phase=FaultPhase.FORGOT,
                fault="container",
                node=node.name,
                file=volume.name,
                bytes_before=size,
                bytes_after=0,
            )
        )
        self.scene.history.write(
            kinds.Engine(
                said=EngineReport.VOLUME_EMPTIED, node=node.name, volume=volume.name, bytes=size
            )
        )

    def _cut_off(self, node: ServerNode | StageNode) -> None:
        self.connections = _established(node)
        self.scene.history.write(
            kinds.Engine(
                said=EngineReport.DISCONNECTED,
                node=node.name,
                address=self._contained(node).disconnect(),
            )
        )

    def _await_given_up(self, node: ServerNode | StageNode) -> None:
        """Wait until the node has given up one of its connections: only the one that waits for an
        answer is given up.
        """
        wait_until(
            lambda: self.connections - _established(node),
            within_s=GIVEN_UP_S,
            poll_s=0.05,
            because=f"{node.name} to give up waiting for its answer",
        )

    @property
    def _volume(self) -> Path:
        return self.scene.transport.broker.data

    def _contained(self, node: ServerNode | StageNode) -> Contained:
        found = _node(node)
        if not isinstance(found, Contained):
            raise TypeError(f"{node.name} is not a container: run this fault with --runtime docker")
        return found


def _node(node: ServerNode | StageNode) -> Node:
    if isinstance(node, StageNode):
        if node.node is None:
            raise RuntimeError(f"{node.name} was never started")
        return node.node
    return node.process()


def _established(node: ServerNode | StageNode) -> frozenset[str]:
    """Return the local addresses of a container's established connections, as ``/proc/PID/net/tcp``
    writes them.
    """
    rows = [
        row.split() for row in Path(f"/proc/{_node(node).pid}/net/tcp").read_text().splitlines()[1:]
    ]
    return frozenset(near for _, near, _, state, *_ in rows if state == ESTABLISHED)
