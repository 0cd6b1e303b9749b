"""Put together the parts of a cell on Storm: lostack's producer, Kafka's parts, and a topology."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from harness.controls import Fired, InProgram, Stop
from harness.model import events as kinds
from harness.model.scenario import Role
from harness.run.drain import Check
from harness.run.who import CellNodes
from harness.systems.kafka.one_broker import OneBroker
from harness.systems.kafka.parts import UNANSWERED, CellOnKafka
from harness.systems.kafka.sinks import FoldedSink
from harness.systems.storm.daemons import daemons
from harness.systems.storm.desk import DeskError
from harness.systems.storm.settings import ACKER, TRIDENT, TRIDENT_TO_DATABASE, StormSettings
from harness.systems.storm.topology import RunningTopology

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.controls import AtWrite, Target
    from harness.run.parts import Parts
    from harness.run.sinks import Database, SinkPart
    from harness.systems.kafka.scene import Scene
    from harness.systems.storm.cluster import Cluster
    from harness.systems.storm.keeper import Keeper

SILENT = (*UNANSWERED, DeskError)
"""The exceptions that mean: a broker or the desk does not answer at the moment."""


class TopologyNodes(CellNodes):
    """Finds the nodes of a cell. A worker at a failpoint writes a history line, and waits until it
    is killed.
    """

    def standing(self, trigger: InProgram | AtWrite) -> Fired | None:
        """Return the worker that waits at a failpoint; ``None`` before that.

        Raises:
            TypeError: the trigger is a durable write.
        """
        if not isinstance(trigger, InProgram):
            raise TypeError("lostack does not trace the durable writes of a Storm worker")
        hits = (hit for hit in self.scene.so_far.of(kinds.Failpoint) if hit.name == trigger.name)
        return next((Fired(hit.record, self.target(trigger.role).name, None) for hit in hits), None)

    def arm(self, trigger: InProgram, stop: Stop) -> tuple[str, Mapping[str, object]]:
        """Return how a failpoint is armed: it holds the thread, or fails; the fault then acts on
        the worker.
        """
        del trigger
        return (stop if stop is Stop.FAIL else Stop.HOLD), {}


def parts_of(on_kafka: CellOnKafka, *, cluster: Cluster, keeper: Keeper, jars: str) -> Parts:
    """Return the parts of one cell. ``jars``: the class path of its topology, if it is not Storm's
    own.
    """
    scene, cell = on_kafka.scene, on_kafka.scene.cell
    if cell.scenario.pipeline == TRIDENT:
        on_kafka = on_kafka.recording_in(FoldedSink(scene))
    database = on_kafka.database if cell.scenario.pipeline == TRIDENT_TO_DATABASE else None
    producing = on_kafka.producing(StormSettings.of(cell.settings).stages)
    topology = RunningTopology(scene, cluster, keeper, jars, database)
    servers: dict[Role, Callable[[], Target]] = {
        **OneBroker(scene).servers(),
        Role.PROCESSOR: lambda: topology.worker,
    }
    if (acker := topology.acker) is not None:
        servers[ACKER] = lambda: acker
    if cell.scenario.deployment.alone:
        servers |= daemons(scene, cluster)
    position_trouble = partial(scene.position_trouble, topology.saved_positions)
    return on_kafka.parts(
        topology,
        producing,
        TopologyNodes(scene, lambda: (producing.node,), servers),
        on_kafka.watching(position_trouble, producing.has_ended, SILENT, producing.supervise),
        checks=(
            Check("topology", topology.trouble),
            Check("topic", scene.log_trouble, costly=True),
            Check("bolt", topology.unwritten),
            Check("position", position_trouble, costly=True),
        ),
        positions=topology.saved_positions,
        abilities={},
        sink=None if database is None else _table(scene, database),
    )


def _table(scene: Scene, database: Database) -> SinkPart:
    from harness.systems.storm.table import StateTable  # noqa: PLC0415 - brings the driver; other cells need none

    return StateTable(scene, database)
