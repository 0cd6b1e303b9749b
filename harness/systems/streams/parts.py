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
from harness.run.controls import Watching, WireControls
from harness.run.drain import Check, Checks, QuietSink
from harness.run.parts import Opened, Parts
from harness.run.stages import Producing, supervise
from harness.systems.kafka.abilities import GroupMembership, Supervisor
from harness.systems.kafka.authorities import observe_reading, observe_source
from harness.systems.kafka.one_broker import OneBroker
from harness.systems.kafka.parts import UNANSWERED, Ground
from harness.systems.kafka.scene import Scene
from harness.systems.kafka.shared_crash import SharedCrash
from harness.systems.kafka.sinks import FoldedSink
from harness.systems.kafka.stages import StageMaker
from harness.systems.streams.instances import InstanceNodes, Instances
from harness.systems.streams.settings import COUNT, LATER
from harness.systems.streams.sinks import kept
from harness.systems.streams.suffering import Deploys, Disks, InstancesGather, OpenTransactions

if TYPE_CHECKING:
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.model.history import HistoryWriter
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
    ground = Ground.of(
        scene, services, FoldedSink(scene) if cell.scenario.pipeline == COUNT else None
    )
    maker = StageMaker(scene, sink="")
    producing = Producing(history, maker.make(Role.PRODUCER, "producer"))
    instances = Instances(scene, maker, install)
    broker = OneBroker(scene, SharedCrash(()))
    nodes = InstanceNodes(scene, lambda: (producing.node, *instances.nodes), broker.servers())
    position_trouble = partial(scene.position_trouble, ground.saved_positions)
    watching = Watching(
        scene.progress,
        lambda: position_trouble() is None,
        producing.has_ended,
        UNANSWERED,
        supervise=lambda: supervise((producing.node, *instances.nodes)),
    )
    abilities: dict[type, object] = {
        Membership: GroupMembership(scene, instances.reading),
        Rebalance: InstancesGather(scene, instances),
        Supervision: Supervisor(watching),
        Termination: Deploys(instances),
        Transactions: OpenTransactions(scene),
    }
    controls = WireControls(
        cell,
        scene.load,
        transport.wire,
        directory,
        history,
        scene.so_far,
        nodes,
        watching,
        abilities,
        {LocalState: partial(Disks, scene)},
    )
    checks = [
        Check("source", producing.trouble),
        Check("consumer", instances.reading.trouble),
        Check("topic", broker.log_trouble, costly=True),
        Check("position", position_trouble, costly=True),
        *(
            (Check("store", partial(kept, scene), costly=True),)
            if cell.scenario.pipeline == LATER
            else ()
        ),
    ]
    return Parts(
        ground=(broker, *ground.parts(), instances, producing, Opened(lambda: None, broker.leave)),
        feed=broker.feed(producing),
        stages=instances,
        controls=controls,
        drain=lambda: QuietSink(Checks(checks, UNANSWERED), ground.sink.size),
        authorities=(
            partial(observe_source, scene),
            partial(observe_reading, scene, ground.saved_positions, ground.sink.observe),
        ),
        freed=(broker.leave,),
    )
