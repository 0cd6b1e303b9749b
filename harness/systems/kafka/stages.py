"""Make the stages of a cell on Kafka, and drain a cell whose client must refuse its settings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from harness.model.cell import client_name
from harness.run.nodes import StageNode
from harness.run.parts import Drained
from harness.stages.clients import ADAPTERS
from harness.stages.stage import SETTINGS_REFUSED, Stage

if TYPE_CHECKING:
    from harness.model.scenario import Role
    from harness.provision.clients import ClientSetup
    from harness.run.stages import Producing
    from harness.systems.kafka.scene import Scene

STAGE_END_S = 20.0


class StageMaker:
    """Makes the stages of a cell. ``sink``: the address of the sink; ``setup``: the installed
    client.
    """

    def __init__(self, scene: Scene, sink: str, setup: ClientSetup | None = None) -> None:
        self._scene = scene
        self._sink = sink
        self._setup = setup

    def make(self, role: Role, name: str) -> StageNode:
        """Make a stage, without starting it. The producer in front of a streaming engine uses the
        first of our clients.
        """
        scene, cell, client = self._scene, self._scene.cell, client_name(self._scene.cell.client)
        stage = Stage(
            cell=cell.id,
            key=cell.key,
            name=name,
            incarnation=0,
            bootstrap=scene.transport.bootstrap(role),
            topic_in=scene.source,
            topic_out=scene.sink,
            topic_cursor=scene.cursor,
            group=scene.group,
            outbox=str(scene.outbox),
            gate=scene.gate,
            sink=self._sink,
            history=str(scene.history_folder),
            settings=scene.settings,
            pipeline=cell.pipeline,
            jitter_ms=scene.load.jitter_ms,
            seed=cell.seed,
            client=client if client in ADAPTERS else next(iter(ADAPTERS)),
            transactional_id=f"{cell.key}-{name}",
            access=scene.transport.secured.access if scene.transport.secured else "",
        )
        return StageNode(
            role,
            f"harness.stages.{role}",
            stage,
            scene.transport.runtime,
            scene.history,
            scene.so_far,
            scene.logs,
            scene.failpoints,
            client=self._setup,
            supervised=cell.supervised,
        )


def next_producer(scene: Scene, first: StageNode) -> StageNode:
    """Make a second producer, not started. It has the transactional id of the first, unless each
    has its own.
    """
    name = "producer-2"
    transactional_id = (
        f"{scene.cell.key}-{name}"
        if scene.settings.producer.own_id
        else first.stage.transactional_id
    )
    stage = replace(first.stage, name=name, incarnation=0, transactional_id=transactional_id)
    return replace(first, stage=stage, node=None)


class Refused:
    """The drain of a cell whose client must refuse its settings. Implements
    :class:`harness.run.parts.Drain`.
    """

    def __init__(self, producing: Producing) -> None:
        self._producing = producing

    def wait(self) -> Drained:
        """Wait for the producer's end; done if its exit status says that it refused
        the settings.
        """
        end = self._producing.node.await_end(STAGE_END_S)
        refused = end is not None and end.status == SETTINGS_REFUSED
        return (
            Drained() if refused else Drained("the client accepted settings that it should refuse")
        )
