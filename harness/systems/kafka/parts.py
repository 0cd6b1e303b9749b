"""Put together the parts of a cell on Kafka. ``one_broker`` and ``cluster`` have what depends on
the number of brokers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from kafka.errors import KafkaError

from harness.abilities import (
    BadNetwork,
    Containers,
    GivingUp,
    Ledger,
    Membership,
    Partitions,
    PowerLoss,
    Rebalance,
    RecordLocks,
    SavedPositions,
    SessionClock,
    Succession,
    Supervision,
    TracedWrites,
    Transactions,
)
from harness.model.scenario import RefusedByClient, Role
from harness.run.controls import Watching, WireControls
from harness.run.drain import Check, Checks, QuietSink, stillness
from harness.run.giving_up import WatchedClient
from harness.run.nodes import ServerNode
from harness.run.parts import DrainFields, Opened, Parts, ReadersStart
from harness.run.power import Power
from harness.run.sinks import Database
from harness.run.stages import Producing, Reading, supervise
from harness.run.who import CellNodes, LastHit, by_client
from harness.services.postgres.program import NODE as DATABASE
from harness.stages.consumer_settings import SavePosition
from harness.systems.kafka import cluster
from harness.systems.kafka.abilities import (
    Coordinator,
    FlushedFiles,
    GroupMembership,
    GroupPositions,
    GroupRebalance,
    Ledgers,
    NextProducer,
    Proxies,
    ReaderClock,
    SourceTopic,
    Supervisor,
)
from harness.systems.kafka.authorities import observe_reading, observe_source
from harness.systems.kafka.broker import INTER_BROKER
from harness.systems.kafka.containers import CellContainers
from harness.systems.kafka.one_broker import OneBroker
from harness.systems.kafka.place import PlaceOnWire
from harness.systems.kafka.reader_locks import ReaderLocks
from harness.systems.kafka.scene import Scene
from harness.systems.kafka.share_group import ShareGroup
from harness.systems.kafka.sinks import TopicSink
from harness.systems.kafka.stages import Refused, StageMaker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from harness.controls import Target
    from harness.model.cell import Cell
    from harness.model.events import Rule
    from harness.model.history import HistoryWriter
    from harness.provision.clients import ClientSetup
    from harness.run.controls import Nodes
    from harness.run.drain import Idle
    from harness.run.parts import Feed, StagesPart
    from harness.run.sinks import SinkPart
    from harness.stages.settings import Settings
    from harness.systems.kafka.services import Services
    from harness.systems.kafka.shared_crash import SharedCrash
    from harness.systems.kafka.transport import KafkaTransport

UNANSWERED = (KafkaError,)
"""The exceptions that mean: the broker does not answer at the moment."""


@dataclass(frozen=True)
class CellOnKafka:
    """What every cell on Kafka is made of, whose stages are a system's own: the wire, topics, an
    outbox, a sink, and what is asked of them.
    """

    scene: Scene
    place: PlaceOnWire
    database: Database
    sink: SinkPart

    @staticmethod
    def of(
        cell: Cell,
        directory: Path,
        history: HistoryWriter,
        transport: KafkaTransport,
        services: Services,
    ) -> CellOnKafka:
        """Make the ground of a cell, without opening anything."""
        scene, pipeline = Scene(cell, directory, history, transport), cell.scenario.pipeline
        database = Database(scene, services.database() if pipeline.on_server else None)
        sink = TopicSink(scene) if pipeline.to_topic else database
        return CellOnKafka(scene, PlaceOnWire(scene, services), database, sink)

    def recording_in(self, sink: SinkPart) -> CellOnKafka:
        """Return the same cell with a sink that is neither a topic nor a database."""
        return replace(self, sink=sink)

    def maker(self, setup: ClientSetup | None = None) -> StageMaker:
        """Return what makes the cell's stages. ``setup``: the client that the cell is pinned to."""
        return StageMaker(self.scene, self.database.there, setup)

    def producing(
        self, settings: Settings | None = None, *, when: ReadersStart = ReadersStart.BEFORE_LOAD
    ) -> Producing:
        """Return lostack's producer. ``settings``: those of a system's own stages, if it has its
        own. Where readers start ``when`` all is there, its last unit does not wait for the fault.
        """
        node = self.maker().make(Role.PRODUCER, "producer")
        if settings is not None:
            node = replace(node, stage=replace(node.stage, settings=settings))
        if when is ReadersStart.FILLED:
            node = replace(node, stage=replace(node.stage, gate=""))
        return Producing(self.scene.history, node)

    def ground(self) -> tuple[Opened | PlaceOnWire | Database, ...]:
        """Return the parts of the ground in the order in which they are opened."""
        scene = self.scene
        return (
            Opened(scene.make_folders),
            self.place,
            Opened(scene.make_topics),
            Opened(scene.save_beginning),
            Opened(scene.tell_group),
            Opened(scene.make_outbox),
            self.database,
        )

    def database_node(self) -> Mapping[Role, Callable[[], Target]]:
        """Return the database server as a target, if the cell does not share it."""
        server = self.database.server
        if server is None or self.scene.cell.scenario.deployment.shared:
            return {}

        def restart() -> None:
            server.restart()
            self.database.sink.reconnect()

        node = ServerNode(
            self.scene.history,
            server.process,
            server.kill,
            restart,
            name=DATABASE,
            role=Role.DATABASE,
        )
        return {Role.DATABASE: lambda: node}

    def sink_checks(self) -> tuple[Check, ...]:
        """Return the checks that a database must pass before its results count as complete."""
        return (
            (Check("database", self.database.trouble, costly=True),)
            if self.sink is self.database
            else ()
        )

    def watching(
        self,
        trouble: Callable[[], str | None],
        exhausted: Callable[[], bool],
        unanswered: tuple[type[Exception], ...] = UNANSWERED,
        supervise: Callable[[], object] = lambda: None,
    ) -> Watching:
        """Return what is polled while a trigger is awaited. ``trouble``: which position is behind;
        ``unanswered``: the exceptions that mean that a server does not answer at the moment.
        """
        progress = self.scene.progress
        return Watching(
            progress, lambda: trouble() is None, exhausted, unanswered, supervise=supervise
        )

    def parts(
        self,
        stages: StagesPart,
        producing: Producing,
        nodes: Nodes,
        watching: Watching,
        *,
        checks: Sequence[Check],
        positions: Callable[[], Mapping[int, int]],
        abilities: Mapping[type, object],
        through: Mapping[type, Callable[[WireControls], object]] | None = None,
        feed: Feed | None = None,
        sink: SinkPart | None = None,
        still: Callable[[], Idle | None] = lambda: None,
        more: Callable[[], DrainFields] = DrainFields,
        when: ReadersStart = ReadersStart.BEFORE_LOAD,
        armed_before_load: bool = True,
    ) -> Parts:
        """Return the parts of a cell whose stages read what lostack's producer sends.

        ``checks``: what must hold at rest, besides that the source is exhausted and the sink
        complete; ``positions``: how far the stages have read. ``sink``: one that needs the open
        database. ``still`` is asked when the drain begins.
        """
        scene, own = self.scene, () if sink is None else (sink,)
        sink = sink or self.sink
        every = (Check("source", producing.trouble), *checks, *self.sink_checks())
        return Parts(
            ground=(*self.ground(), *own, stages, producing),
            feed=feed or producing,
            stages=stages,
            controls=WireControls(
                scene, scene.transport.wire, nodes, watching, abilities, through or {}
            ),
            drain=lambda: QuietSink(Checks(every, watching.unanswered), sink.size, still(), more),
            authorities=(
                partial(observe_source, scene),
                partial(observe_reading, scene, positions, sink.observe),
            ),
            when=when,
            freed=(scene.open_gate,),
            armed_before_load=armed_before_load,
        )

    def saved_positions(self) -> dict[int, int]:
        """Return the saved position of each partition, from where this semantic keeps it (group or
        database).
        """
        with_result = self.scene.settings.consumer.position is SavePosition.WITH_RESULT
        return self.scene.every_partition(
            self.database.sink.positions() if with_result else self.scene.group_positions()
        )


def parts_of(on_kafka: CellOnKafka, crash: SharedCrash, setup: ClientSetup | None) -> Parts:
    """Return the parts of a cell of lostack's own stages."""
    scene, cell, maker = on_kafka.scene, on_kafka.scene.cell, on_kafka.maker(setup)
    producing = Producing(scene.history, maker.make(Role.PRODUCER, "producer"))
    reading = Reading(
        maker.make,
        Role.PROCESSOR if cell.scenario.pipeline.to_topic else Role.CONSUMER,
        scene.settings.consumer.count,
    )
    last_hit = LastHit()
    brokers = (
        cluster.ClusterBrokers(scene, last_hit)
        if cell.scenario.deployment.clustered
        else OneBroker(scene, crash)
    )
    servers = {**brokers.servers(), **on_kafka.database_node()}

    def meant(hit: Rule) -> str:
        return brokers.asker(hit) if hit.role == INTER_BROKER else by_client(hit)

    nodes = CellNodes(
        scene, lambda: (producing.node, *reading.nodes), servers, meant, last_hit=last_hit
    )
    shared = ShareGroup(scene) if scene.shared else None
    position_trouble = (
        shared.trouble if shared else partial(scene.position_trouble, on_kafka.saved_positions)
    )
    watching = on_kafka.watching(
        position_trouble,
        producing.has_ended,
        supervise=lambda: supervise((producing.node, *reading.nodes)),
    )
    parts = on_kafka.parts(
        reading,
        producing,
        nodes,
        watching,
        checks=(
            Check("consumer", reading.trouble),
            Check("topic", brokers.log_trouble, costly=True),
            Check("position", position_trouble, costly=True),
        ),
        positions=on_kafka.saved_positions,
        abilities={
            PowerLoss: FlushedFiles(scene),
            TracedWrites: Power(scene, lambda: scene.transport.brokers),
            SavedPositions: GroupPositions(scene),
            Membership: GroupMembership(scene, reading),
            Rebalance: GroupRebalance(scene, reading),
            SessionClock: ReaderClock(scene),
            Transactions: Coordinator(scene),
            Supervision: Supervisor(watching),
            Succession: NextProducer(scene, producing),
            BadNetwork: Proxies(on_kafka.place),
            Ledger: Ledgers(scene),
            Partitions: SourceTopic(scene),
            Containers: CellContainers(scene, nodes.target),
            GivingUp: WatchedClient(scene.so_far, watching.supervise),
            RecordLocks: ReaderLocks(scene),
        },
        through=brokers.abilities(),
        feed=brokers.feed(producing),
        still=partial(stillness, cell, scene.progress, producing.has_ended),
        more=lambda: {"tail": True} if scene.rewound else {},
        when=_when(cell),
    )
    source, observed = parts.authorities
    if shared:
        observed = partial(shared.observe, on_kafka.sink.observe)
    refused = isinstance(cell.expectation, RefusedByClient)
    return replace(
        parts,
        ground=(
            brokers,
            *on_kafka.ground(),
            Opened(brokers.place_topics),
            reading,
            producing,
            Opened(lambda: None, brokers.leave),
        ),
        drain=(lambda: Refused(producing)) if refused else parts.drain,
        authorities=(source, observed, brokers.observe),
        freed=(brokers.leave, *parts.freed),
    )


def _when(cell: Cell) -> ReadersStart:
    if isinstance(cell.expectation, RefusedByClient):
        return ReadersStart.NEVER
    return (
        ReadersStart.AFTER_FAULT
        if cell.scenario.consumer_starts_after_fault
        else ReadersStart.BEFORE_LOAD
    )
