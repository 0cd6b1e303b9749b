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
from harness.run.drain import Check
from harness.run.stages import supervise
from harness.systems.kafka.abilities import GroupMembership, Supervisor
from harness.systems.kafka.one_broker import OneBroker
from harness.systems.kafka.sinks import FoldedSink
from harness.systems.kafka.stages import StageMaker
from harness.systems.streams.abilities import Deploys, Disks, InstancesGather, OpenTransactions
from harness.systems.streams.instances import InstanceNodes, Instances
from harness.systems.streams.settings import COUNT, LATER
from harness.systems.streams.sinks import kept

if TYPE_CHECKING:
    from harness.run.parts import Parts
    from harness.systems.kafka.parts import CellOnKafka
    from harness.systems.streams.install import StreamsInstall


def parts_of(on_kafka: CellOnKafka, *, install: StreamsInstall) -> Parts:
    """Return the parts of one cell."""
    scene, pipeline = on_kafka.scene, on_kafka.scene.cell.scenario.pipeline
    if pipeline == COUNT:
        on_kafka = on_kafka.recording_in(FoldedSink(scene))
    producing = on_kafka.producing()
    instances = Instances(scene, StageMaker(scene, sink=""), install)
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
            *(store if pipeline == LATER else ()),
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
