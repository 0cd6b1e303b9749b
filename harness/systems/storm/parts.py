"""What a cell on Storm is made of: our producer and Kafka's parts, and a topology that reads while records flow."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from harness.model.scenario import Role
from harness.run.controls import Watching, WireControls
from harness.run.drain import Check, Checks, QuietSink
from harness.run.parts import Parts
from harness.run.stages import Producing
from harness.run.who import CellNodes
from harness.systems.kafka.authorities import observe_reading, observe_source
from harness.systems.kafka.one_broker import OneBroker
from harness.systems.kafka.parts import UNANSWERED, Ground
from harness.systems.kafka.scene import Scene
from harness.systems.kafka.shared_crash import SharedCrash
from harness.systems.kafka.stages import StageMaker
from harness.systems.storm.settings import storms
from harness.systems.storm.topology import RunningTopology

if TYPE_CHECKING:
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.model.history import HistoryWriter
    from harness.systems.kafka.services import Services
    from harness.systems.kafka.transport import KafkaTransport
    from harness.systems.storm.cluster import Cluster


def parts_of(
    cell: Cell, directory: Path, history: HistoryWriter, *, transport: KafkaTransport, services: Services, cluster: Cluster
) -> Parts:
    """Return what one cell is made of."""
    scene = Scene(cell, directory, history, transport)
    ground = Ground.of(scene, services)
    made = StageMaker(scene, ground.database.there).make(Role.PRODUCER, "producer")
    producing = Producing(history, replace(made, stage=replace(made.stage, settings=storms(cell.settings).stages)))
    topology = RunningTopology(scene, cluster)
    broker = OneBroker(scene, SharedCrash(()))
    nodes = CellNodes(scene, lambda: (producing.node,), {**broker.servers(), Role.PROCESSOR: lambda: topology.worker})
    position_trouble = partial(scene.position_trouble, ground.saved_positions)
    watching = Watching(scene.progress, lambda: position_trouble() is None, producing.has_ended, UNANSWERED)
    checks = [
        Check("source", producing.trouble), Check("topology", topology.trouble), Check("topic", scene.log_trouble, costly=True),
        Check("bolt", topology.unwritten), Check("position", position_trouble, costly=True),
    ]  # fmt: skip
    return Parts(
        ground=(*ground.parts(), topology, producing),
        feed=producing,
        stages=topology,
        controls=WireControls(cell, scene.load, transport.wire, directory, history, scene.so_far, nodes, watching),
        drain=lambda: QuietSink(Checks(checks, UNANSWERED), ground.sink.size),
        authorities=(
            partial(observe_source, scene),
            partial(observe_reading, scene, ground.saved_positions, ground.sink.observe),
        ),
    )
