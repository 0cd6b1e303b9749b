"""Put together the parts of a cell on Kafka Streams: lostack's producer, Kafka's parts, and the
instances.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from harness.abilities import (
    LocalState,
    Membership,
    Rebalance,
    Supervision,
    Termination,
    Transactions,
)
from harness.model.scenario import Role
from harness.run.drain import Check
from harness.run.stages import Producing, supervise
from harness.systems.kafka.abilities import GroupMembership, Supervisor
from harness.systems.kafka.one_broker import OneBroker
from harness.systems.kafka.parts import CellOnKafka
from harness.systems.kafka.scene import Scene
from harness.systems.kafka.sinks import FoldedSink
from harness.systems.kafka.stages import StageMaker
from harness.systems.streams.abilities import Deploys, Disks, InstancesGather, OpenTransactions
from harness.systems.streams.instances import InstanceNodes, Instances
from harness.systems.streams.settings import COUNT, LATER
from harness.systems.streams.sinks import kept

if TYPE_CHECKING:
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.model.history import HistoryWriter
    from harness.run.parts import Parts
    from harness.systems.kafka.services import Services
    from harness.systems.kafka.transport import KafkaTransport
    from harness.systems.streams.install import StreamsInstall


def parts_of(
    cell: Cell,
    directory: Path,
    history: HistoryWriter,
    *,
    transport: KafkaTransport,
    services: Services,
    install: StreamsInstall,
) -> Parts:
    """Return the parts of one cell."""
    scene = Scene(cell, directory, history, transport)
    on_kafka = CellOnKafka.of(
        scene, services, FoldedSink(scene) if cell.scenario.pipeline == COUNT else None
    )
    maker = StageMaker(scene, sink="")
    producing = Producing(history, maker.make(Role.PRODUCER, "producer"))
    instances = Instances(scene, maker, install)
    servers = OneBroker(scene).servers()
    nodes = InstanceNodes(scene, lambda: (producing.node, *instances.nodes), servers)
    position_trouble = partial(scene.position_trouble, on_kafka.saved_positions)
    watching = on_kafka.watching(
        position_trouble,
        producing.has_ended,
        supervise=lambda: supervise((producing.node, *instances.nodes)),
    )
    store = (Check("store", partial(kept, scene), costly=True),)
    return on_kafka.parts(
        instances,
        producing,
        nodes,
        watching,
        checks=(
            Check("consumer", instances.reading.trouble),
            Check("topic", scene.log_trouble, costly=True),
            Check("position", position_trouble, costly=True),
            *(store if cell.scenario.pipeline == LATER else ()),
        ),
        positions=on_kafka.saved_positions,
        abilities={
            Membership: GroupMembership(scene, instances.reading),
            Rebalance: InstancesGather(scene, instances),
            Supervision: Supervisor(watching),
            Termination: Deploys(instances),
            Transactions: OpenTransactions(scene),
        },
        through={LocalState: partial(Disks, scene)},
    )
