"""What only a container can suffer, done to the nodes of a Kafka cell; the engine's word goes into the history."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.core import events as kinds
from harness.core.engine import Said
from harness.core.waiting import wait_until
from harness.faults.strike import Blow
from harness.runtimes.interface import Contained
from harness.systems.kafka.nodes import StageNode

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.core.history import HistoryWriter
    from harness.runtimes.interface import Node
    from harness.systems.kafka.nodes import ServerNode
    from harness.systems.kafka.system import KafkaDeployed

GIVEN_UP_S = 60.0
ESTABLISHED = "01"
"""As the kernel's table of connections writes it."""


@dataclass
class Containers:
    """The containers of one cell."""

    deployed: KafkaDeployed
    history: HistoryWriter
    make_topics: Callable[[], None]
    connections: frozenset[str] = frozenset()
    """Those of a node that was disconnected, when it was."""

    def strike(self, blow: Blow, node: ServerNode | StageNode) -> None:
        """Do it."""
        if blow is Blow.NETWORK:
            self._cut_off(node)
        elif blow is Blow.MEMORY:
            self._starve(node)
        else:
            node.kill()
            if blow is Blow.VOLUME:
                self._lose_volume(node)

    def mend(self, blow: Blow, node: ServerNode | StageNode) -> None:
        """Heal it."""
        if blow is Blow.NETWORK:
            self._say(Said.CONNECTED, node.name, address=self._contained(node).connect())
            return
        before = self._contained(node)
        if blow is not Blow.MEMORY:
            before.discard()
        node.restart()
        after = self._contained(node)
        if blow is not Blow.MEMORY:
            self._say(
                Said.NEW_CONTAINER, node.name, before=before.container_id, after=after.container_id, volume=self._volume.name
            )
        if blow is Blow.VOLUME:
            self.make_topics()

    def _starve(self, node: ServerNode | StageNode) -> None:
        contained = self._contained(node)
        limit = contained.starve()
        node.kill()  # it is dead: this writes down how it ended, and lets the wire refuse connections
        if contained.oom_killed:
            self._say(Said.OOM_KILLED, node.name, limit=limit)

    def _lose_volume(self, node: ServerNode | StageNode) -> None:
        volume = self._volume
        size = sum(file.stat().st_size for file in volume.rglob("*") if file.is_file())
        for each in volume.iterdir():
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        self.history.write(
            kinds.FAULT, phase="forgot", fault="strike", node=node.name, file=volume.name, bytes_before=size, bytes_after=0
        )
        self._say(Said.VOLUME_EMPTIED, node.name, volume=volume.name, bytes=size)

    def _cut_off(self, node: ServerNode | StageNode) -> None:
        self.connections = _established(node)
        self._say(Said.DISCONNECTED, node.name, address=self._contained(node).disconnect())

    def await_given_up(self, node: ServerNode | StageNode) -> None:
        """Wait until the node has given up a connection that it had: the one that waits for an answer; others do not."""
        wait_until(lambda: self.connections - _established(node), within_s=GIVEN_UP_S, poll_s=0.05,
                   because=f"{node.name} to give up waiting for its answer")  # fmt: skip

    @property
    def _volume(self) -> Path:
        return self.deployed.broker.data

    def _contained(self, node: ServerNode | StageNode) -> Contained:
        found = _node(node)
        if not isinstance(found, Contained):
            raise TypeError(f"{node.name} is no container: this fault is for --runtime docker")
        return found

    def _say(self, said: Said, node: str, **fields: Any) -> None:
        self.history.write(kinds.ENGINE, said=said, node=node, **fields)


def _node(node: ServerNode | StageNode) -> Node:
    if isinstance(node, StageNode):
        if node.node is None:
            raise RuntimeError(f"{node.name} was never started")
        return node.node
    return node.process()


def _established(node: ServerNode | StageNode) -> frozenset[str]:
    """Return the near ends of a container's connections, as the kernel's table of its network has them."""
    rows = [row.split() for row in Path(f"/proc/{_node(node).pid}/net/tcp").read_text().splitlines()[1:]]
    return frozenset(near for _, near, _, state, *_ in rows if state == ESTABLISHED)
