"""Put together the parts of a cell with a queue between its stages, on any broker of queues."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from harness.abilities import Beginning, BrokerSettings, FilesAtRest, TracedWrites
from harness.faults import StartLate
from harness.model.cell import client_name
from harness.model.scenario import Role
from harness.model.takeovers import Takeover
from harness.run.clients import brought_adapter
from harness.run.controls import Watching, WireControls
from harness.run.damage import BrokerFiles, Files
from harness.run.drain import Check, Checks, QuietSink, stillness
from harness.run.nodes import ServerNode, StageNode
from harness.run.parts import FeedAfter, Opened, Parts, ReadersStart
from harness.run.power import Power, Powered
from harness.run.queue_broker import BROKER, UNANSWERED, QueueBroker, Results
from harness.run.queue_cluster import QueueCluster, QueueTakenOver
from harness.run.queue_replicas import replicating
from harness.run.queues import Queue, Readers
from harness.run.scene import CellScene
from harness.run.sinks import Database
from harness.run.stages import Producing, Reading, supervise
from harness.run.who import CellNodes, LastHit, by_client
from harness.stages.settings import Settings
from harness.stages.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from harness.model import events as kinds
    from harness.model.cell import Cell
    from harness.model.history import HistoryWriter
    from harness.model.scenario import Scenario
    from harness.protocols.acts import Act
    from harness.provision.clients import ClientSetup
    from harness.run.parts import Drain
    from harness.wire.rules import StepName

MODULES = {
    Role.PRODUCER: "harness.stages.producer",
    Role.CONSUMER: "harness.stages.queue_consumer",
    Role.PROCESSOR: "harness.stages.queue_processor",
}


def node_of(hit: kinds.Rule) -> str:
    """Return the name of the node whose frame was hit. On the broker's routes to itself that is the
    broker.
    """
    return BROKER if hit.role == Role.BROKER else by_client(hit)


def server_of(broker: QueueBroker, history: HistoryWriter) -> ServerNode:
    """Return the broker as a node of the one cell that has it to itself. Where its clients are led
    by the wire, nobody may listen when it was killed: so a ``kill`` that hits something else is
    found, also of a package's broker.
    """

    def ports() -> Iterable[int]:
        here = broker.runtime.here
        return [route.upstream_port for route in broker.wire.routes()] if here else ()

    return ServerNode(
        history, broker.process, broker.kill, broker.restart, name=BROKER, serves_at=ports
    )


def parts_of(
    cell: Cell,
    directory: Path,
    history: HistoryWriter,
    *,
    broker: QueueBroker,
    setup: ClientSetup | None = None,
    to_queue: Callable[[CellScene], Results] | None = None,
    words: Mapping[Act, StepName] | None = None,
    abilities: Callable[[Queue], Mapping[type, object]] = lambda _: {},
    written: Callable[[str], str] = str,
) -> Parts:
    """Return the parts of one cell.

    ``to_queue``: makes the results' queue, if a processor sends its results to a queue; null: a
    consumer records them in a database. ``words``: the step of the client's protocol that each act
    means, if scenarios name acts. ``abilities``: what faults can ask of the cell's queue.
    ``written``: returns its name as programs write it.
    """
    scene, settings = CellScene(cell, directory, history), Settings.of(cell.settings)
    queue = Queue(scene, broker)
    results: Results = (
        Database(scene, placed=queue.place_of) if to_queue is None else to_queue(scene)
    )
    reader = Role.CONSUMER if to_queue is None else Role.PROCESSOR

    def make(role: Role, name: str) -> StageNode:
        stage = Stage(
            cell=cell.id,
            key=cell.key,
            name=name,
            incarnation=0,
            bootstrap=broker.address(role),
            topic_in=written(queue.name),
            topic_out=results.name,
            topic_cursor="",
            group="",
            outbox=str(scene.outbox),
            gate=scene.gate,
            sink=results.there,
            history=str(scene.history_folder),
            settings=settings,
            pipeline=cell.pipeline,
            jitter_ms=scene.load.jitter_ms,
            seed=cell.seed,
            client=client_name(cell.client),
            adapter=brought_adapter(client_name(cell.client)),
        )
        return StageNode(
            role,
            MODULES[role],
            stage,
            broker.runtime,
            history,
            scene.so_far,
            scene.logs,
            scene.failpoints,
            client=setup,
            adapter=stage.adapter,
            supervised=cell.supervised,
        )

    producing = Producing(history, make(Role.PRODUCER, "producer"))
    reading = Reading(make, reader, settings.consumer.count)
    server, last_hit, needs = server_of(broker, history), LastHit(), cell.scenario.deployment
    several = (
        QueueCluster(scene, queue.name, replicating(broker), last_hit) if needs.clustered else None
    )
    nodes = CellNodes(
        scene,
        lambda: (producing.node, *reading.nodes),
        several.servers() if several else {Role.BROKER: lambda: server} if needs.alone else {},
        meant=node_of,
        words=words or {},
        last_hit=last_hit,
    )
    able: dict[type, object] = {Beginning: reading}
    if isinstance(broker, Powered):
        able[TracedWrites] = Power(scene, lambda: several.broker.nodes if several else (broker,))
    if isinstance(broker, BrokerSettings):
        able[BrokerSettings] = broker
    if isinstance(broker, BrokerFiles):
        able[FilesAtRest] = Files(scene, broker)
    watching = Watching(
        scene.progress,
        lambda: queue.trouble() is None,
        producing.has_ended,
        UNANSWERED,
        supervise=lambda: supervise((producing.node, *reading.nodes)),
    )

    def drain() -> Drain:
        checks = [
            Check("source", producing.trouble),
            Check(str(reader), Readers(scene, reading).trouble),
            Check("queue", queue.trouble, costly=True),
            *([] if several is None else [Check("replicas", several.trouble, costly=True)]),
            Check("results", results.trouble, costly=True),
        ]
        return QuietSink(
            Checks(checks, UNANSWERED),
            results.size,
            stillness(cell, scene.progress, producing.has_ended),
        )

    return Parts(
        ground=(
            Opened(scene.make_folders),
            *(() if several is None else (several,)),
            queue,
            Opened(scene.make_outbox),
            results,
            reading,
            producing,
        ),
        feed=producing if several is None else FeedAfter(several.place, producing),
        stages=reading,
        controls=WireControls(
            scene,
            broker.wire,
            nodes,
            watching,
            {**able, **abilities(queue)},
            {} if several is None else {Takeover: partial(QueueTakenOver, several)},
        ),
        when=_when(cell.scenario),
        freed=(scene.open_gate,),
        drain=drain,
        authorities=(
            scene.observe_offered,
            scene.observe_cursor,
            results.observe,
            queue.observe,
            *(() if several is None else (several.observe,)),
        ),
    )


def _when(scenario: Scenario) -> ReadersStart:
    if isinstance(scenario.fault, StartLate):
        return ReadersStart.NEVER
    return (
        ReadersStart.AFTER_FAULT
        if scenario.consumer_starts_after_fault
        else ReadersStart.BEFORE_LOAD
    )


__all__ = ["parts_of", "server_of"]
