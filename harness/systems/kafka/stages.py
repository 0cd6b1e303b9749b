"""The stages of a cell on Kafka: its producer, and the processes that read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.cell import client_name
from harness.model.scenario import Role
from harness.run.drain import StageEndedError
from harness.run.parts import Drained
from harness.stages.clients import ADAPTERS
from harness.stages.stage import SETTINGS_REFUSED, Stage
from harness.systems.kafka.nodes import StageNode

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from harness.provision.clients import ClientSetup
    from harness.systems.kafka.scene import Scene

STAGE_END_S = 20.0


class StageMaker:
    """Makes the stages of a cell. ``sink``: where they find it; ``setup``: what their client needs around it."""

    def __init__(self, scene: Scene, outbox: Path, sink: str, setup: ClientSetup | None = None) -> None:
        self._scene = scene
        self._outbox = outbox
        self._sink = sink
        self._setup = setup

    def make(self, role: Role, name: str) -> StageNode:
        """Return a stage, not started yet. A streaming engine's topic is filled by the first of our clients."""
        scene, cell, client = self._scene, self._scene.cell, client_name(self._scene.cell.client)
        stage = Stage(
            cell=cell.id, key=cell.key, name=name, incarnation=0, bootstrap=scene.transport.bootstrap(role),
            topic_in=scene.source, topic_out=scene.sink, topic_cursor=scene.cursor, group=scene.group,
            outbox=str(self._outbox), sink=self._sink, history=str(scene.history_folder),
            settings=scene.settings, pipeline=cell.pipeline, jitter_ms=scene.load.jitter_ms, seed=cell.seed,
            client=client if client in ADAPTERS else next(iter(ADAPTERS)), transactional_id=f"{cell.key}-{name}",
        )  # fmt: skip
        return StageNode(role, f"harness.stages.{role}", stage, scene.transport.runtime, scene.history, scene.so_far,
                         scene.logs, scene.failpoints, client=self._setup)  # fmt: skip


class Producing:
    """The producer, and those whose place it has taken. Implements :class:`harness.run.parts.Feed`; a part of the ground."""

    def __init__(self, scene: Scene, first: StageNode) -> None:
        self._scene = scene
        self.node = first
        self._replaced: tuple[StageNode, ...] = ()

    def open(self) -> None:
        """It starts with the load."""

    def start(self) -> None:
        """Start it."""
        self.node.start()

    def await_filled(self) -> None:
        """Nobody waits: who reads is there first."""

    def substitute(self) -> tuple[StageNode, StageNode]:
        """Put another producer in the place of the first: with its transactional id, unless each has its own. Return both."""
        first, name, cell = self.node, "producer-2", self._scene.cell
        transactional_id = f"{cell.key}-{name}" if self._scene.settings.producer.own_id else first.stage.transactional_id
        stage = replace(first.stage, name=name, incarnation=0, transactional_id=transactional_id)
        self.node = replace(first, stage=stage, node=None)
        self._replaced = (*self._replaced, first)
        self._scene.history.write(
            kinds.NODE, node=first.name, role=first.role, incarnation=first.stage.incarnation, phase="replaced"
        )
        return first, self.node

    def has_ended(self) -> bool:
        """Whether it has sent everything it will send."""
        return self.node.started and self.node.ended() is not None

    def trouble(self) -> str | None:
        """Why the source is not exhausted yet, or ``None``. Raises StageEndedError where it never will be."""
        end = self.node.ended()
        if end is None:
            return "the producer has not sent everything yet"
        if end.status != 0:
            raise StageEndedError(f"the producer ended with {end} before the source was exhausted")
        return None

    def close(self) -> None:
        """End them."""
        kill_all((*self._replaced, self.node))


class Reading:
    """The processes that read. Implements :class:`harness.run.parts.Stages`; a part of the ground."""

    def __init__(self, scene: Scene, maker: StageMaker) -> None:
        self._maker = maker
        role = Role.PROCESSOR if scene.cell.scenario.pipeline.to_topic else Role.CONSUMER
        count = scene.settings.consumer.count
        names = [str(role)] if count == 1 else [f"{role}-{n}" for n in range(1, count + 1)]
        self.nodes = tuple(maker.make(role, name) for name in names)

    def open(self) -> None:
        """They start when the run says so."""

    def start(self) -> None:
        """Start them, and wait until they are ready."""
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            node.await_ready()

    def stand_by(self) -> None:
        """They start at once."""

    def newcomer(self, role: Role) -> StageNode:
        """Return one more process, of the cell from then on."""
        node = self._maker.make(role, f"{role}-{len(self.nodes) + 1}")
        self.nodes = (*self.nodes, node)
        return node

    def trouble(self) -> str | None:
        """Find no trouble, or raise StageEndedError where one has ended although it should go on."""
        for node in self.nodes:
            if node.started and (end := node.ended()) is not None:
                raise StageEndedError(f"the {node.name} ended with {end}")
        return None

    def close(self) -> None:
        """End them."""
        kill_all(self.nodes)


def kill_all(nodes: Sequence[StageNode]) -> None:
    """SIGKILL those that were started. What fails keeps no other from its end, and is raised behind it."""
    if not nodes:
        return
    try:
        if nodes[0].started:
            nodes[0].kill()
    finally:
        kill_all(nodes[1:])


class Refused:
    """The drain of a cell whose client must refuse its settings. Implements :class:`harness.run.parts.Drain`."""

    def __init__(self, producing: Producing) -> None:
        self._producing = producing

    def wait(self) -> Drained:
        """Wait for the producer's end, and look at how it ended."""
        end = self._producing.node.await_end(STAGE_END_S)
        refused = end is not None and end.status == SETTINGS_REFUSED
        return Drained() if refused else Drained("the client took the settings")
