"""Put together the parts of a cell on Kafka Connect: Kafka's parts, lostack's stage on one side of
the topic, and the workers on the other.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from harness.abilities import Membership
from harness.model.scenario import Role
from harness.run.drain import Check
from harness.run.stages import Producing, Reading, supervise
from harness.systems.kafka.one_broker import OneBroker
from lostack_connect.abilities import TakenOverByWorker
from lostack_connect.authorities import observe_letters, observe_source
from lostack_connect.faults import Tasks
from lostack_connect.settings import SOURCE
from lostack_connect.workers import Sourcing, WorkerNodes, Workers

if TYPE_CHECKING:
    from harness.run.parts import Parts
    from harness.systems.kafka.parts import CellOnKafka
    from lostack_connect.install import ConnectInstall


def parts_of(on_kafka: CellOnKafka, *, install: ConnectInstall) -> Parts:
    """Return the parts of one cell."""
    scene, cell, maker = on_kafka.scene, on_kafka.scene.cell, on_kafka.maker()
    role = Role.PRODUCER if cell.scenario.pipeline == SOURCE else Role.CONSUMER
    workers = Workers(scene, install, role, maker)
    stages: Reading | Workers
    if role is Role.PRODUCER:
        producing: Producing = Sourcing(scene, workers)
        stages = Reading(maker.make, Role.CONSUMER)
        ours = stages.nodes
    else:
        producing, stages = on_kafka.producing(), workers
        ours = (producing.node,)
    nodes = WorkerNodes(scene, lambda: (*workers.nodes, *ours), OneBroker(scene).servers())
    nodes.held = role
    position_trouble = partial(scene.position_trouble, on_kafka.saved_positions)
    parts = on_kafka.parts(
        stages,
        producing,
        nodes,
        on_kafka.watching(position_trouble, producing.has_ended, supervise=lambda: supervise(ours)),
        checks=(
            Check("consumer", stages.trouble),
            Check("topic", scene.log_trouble, costly=True),
            Check("position", position_trouble, costly=True),
        ),
        positions=on_kafka.saved_positions,
        abilities={
            Membership: TakenOverByWorker(scene, workers),
            Tasks: workers,
        },
    )
    if role is Role.PRODUCER:
        return replace(parts, authorities=(partial(observe_source, scene), parts.authorities[1]))
    if cell.scenario.dead_letters:
        return replace(parts, authorities=(*parts.authorities, partial(observe_letters, scene)))
    return parts
