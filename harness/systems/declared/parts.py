"""Put together the parts of a declared cell. The user's programs are not changed.

The wire says what was sent, acknowledged and fetched, the logs say what is stored, and the output
says what is recorded.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from harness.abilities import (
    Beginning,
    DurableWrites,
    GivingUp,
    HeldWork,
    Input,
    LogCompaction,
    Membership,
    NewPartitions,
    NewTopic,
    Retention,
    SavedMarks,
    SavedPositions,
    Termination,
)
from harness.faults import TakenOver, TopicAppears
from harness.model.bursts import Backlog, Overlap
from harness.model.rebalances import Regrouping
from harness.model.scenario import Deployment
from harness.model.secrets import mask_files
from harness.model.takeovers import Takeover
from harness.model.turns import NextTarget
from harness.pipelines.connectors import own_topics
from harness.run.controls import FIRE_S, FaultState, Watching, WireControls
from harness.run.giving_up import WatchedClient
from harness.run.parts import Opened, Parts
from harness.run.who import LastHit
from harness.systems.declared.abilities import (
    AddedPartitions,
    ForeignMembership,
    GroupPositions,
    StageTermination,
    StandardInput,
    TracedWrites,
)
from harness.systems.declared.anew import RemadeTopic
from harness.systems.declared.brokers.attached import AttachedBrokers
from harness.systems.declared.brokers.cluster import OwnCluster
from harness.systems.declared.bursts import GatheredRecords, OverlappingRequests
from harness.systems.declared.compaction import CompactedLog
from harness.systems.declared.drain.conditions import DrainConditions
from harness.systems.declared.drain.drain import PatientDrain
from harness.systems.declared.drain.progress import Progress
from harness.systems.declared.feed.feed import DeclaredFeed
from harness.systems.declared.late_topic import CreatedLate
from harness.systems.declared.overtaking import MarksInSource, WorkOnItsWay
from harness.systems.declared.programs.elsewhere import UnseenServers
from harness.systems.declared.programs.owners import Owners
from harness.systems.declared.programs.services import Services
from harness.systems.declared.programs.stages import DeclaredStages, make_stage
from harness.systems.declared.programs.targets import FaultTargets
from harness.systems.declared.programs.workers import Victim, Workers
from harness.systems.declared.regrouping import GroupChange
from harness.systems.declared.results.matcher import RecordMatcher
from harness.systems.declared.retention import DeletedRecords
from harness.systems.declared.scene import Scene
from harness.systems.declared.takeover import BrokerTakenOver
from harness.systems.declared.transport.authorities import Authorities
from harness.systems.declared.transport.log import Log, bury_one, expel
from harness.systems.declared.transport.positions import Positions
from harness.systems.declared.transport.queue import Queue
from harness.systems.declared.turns import TargetsInTurn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from harness.model.history import HistoryWriter
    from harness.model.scenario import Role
    from harness.pipelines.cells import DeclaredCell
    from harness.pipelines.programs import Program
    from harness.runtimes.interface import Runtime
    from harness.systems.declared.brokers.kafka import Brokers
    from harness.systems.declared.programs.nodes import CommandNode
    from harness.systems.declared.programs.services import SharedServices
    from harness.systems.declared.scene import EarlierCells, Fetched
    from harness.systems.declared.transport.interface import Transport

IDLE_S = 8.0
"""Longer than a client's auto-commit interval, because the awaited request may be an
auto-commit.
"""


def parts_of(
    cell: DeclaredCell,
    directory: Path,
    history: HistoryWriter,
    *,
    brokers: Brokers,
    fetched: Fetched,
    learnt: EarlierCells,
    runtime_of: Callable[[Program], Runtime],
    shared_services: SharedServices,
) -> Parts:
    """Return what one cell is made of."""
    scene = Scene(cell, directory, history, brokers=brokers, fetched=fetched, learnt=learnt)
    services = Services(scene, shared_services, runtime_of)
    stages = {
        stage.known: make_stage(
            scene,
            stage,
            runtime_of(stage),
            partial(expel, scene, stage.known),
            partial(bury_one, scene, stage.known),
        )
        for stage in scene.pipeline.stages
    }
    own = cell.scenario.deployment is Deployment.OWN
    victim, fault, last_hit = Victim(), FaultState(), LastHit()
    workers = Workers(stages, victim)
    owners = Owners(scene, stages, workers)
    matcher = RecordMatcher(scene)
    transport = (
        Queue(scene, matcher)
        if not scene.pipeline.dialect.logs
        else _log(scene, stages, owners, matcher)
    )
    servers = {**(brokers.servers(history) if own else {}), **services.targets()}
    nodes = FaultTargets(
        scene,
        stages,
        servers,
        members=transport.members,
        victim=victim,
        last_hit=last_hit,
    )
    feed = DeclaredFeed(scene, stages, owners, fault)
    progress = Progress(scene, matcher, transport.unanswered)
    reading = DeclaredStages(scene, stages, owners)
    elsewhere = UnseenServers(scene, stages, reading.traced)
    conditions = DrainConditions(
        scene,
        stages,
        feed=feed,
        matcher=matcher,
        owners=owners,
        transport=transport,
        workers=workers,
        progress=progress,
        services=services,
        look=elsewhere.look,
    )
    watching = Watching(
        progress=lambda: (
            scene.records_seen.last,
            matcher.glance(),
        ),
        settled=transport.settled,
        exhausted=feed.exhausted,
        unanswered=transport.unanswered,
        idle_s=scene.still(max(IDLE_S, scene.pipeline.output.quiet_s)),
        fire_s=scene.still(FIRE_S),
        # the output is not read while records flow: that may lock it
        advance=scene.records_seen.firsts,
        look=owners.attribute,
        supervise=conditions.supervise,
    )
    abilities: dict[type, object] = {
        Membership: ForeignMembership(scene, nodes),
        Termination: StageTermination(nodes),
        Input: StandardInput(feed),
        GivingUp: WatchedClient(scene.so_far, conditions.supervise),
        SavedPositions: GroupPositions(scene),
        NewPartitions: AddedPartitions(scene, feed),
        Retention: DeletedRecords(scene, feed),
        Beginning: reading,
        Overlap: OverlappingRequests(scene, nodes),
        Backlog: GatheredRecords(scene, owners.attribute),
    }
    through: dict[type, Callable[[WireControls], object]] = {
        LogCompaction: lambda controls: CompactedLog(scene, controls, feed, matcher),
        DurableWrites: lambda controls: TracedWrites(scene, controls, nodes),
        NewTopic: lambda controls: RemadeTopic(
            scene,
            feed,
            matcher,
            transport,
            CreatedLate(scene, controls, stages, owners.attribute),
        ),
        NextTarget: lambda controls: TargetsInTurn(scene, controls, feed),
        SavedMarks: lambda controls: MarksInSource(scene, controls, nodes, feed),
        Regrouping: lambda controls: GroupChange(
            scene, controls, nodes, victim, owners.attribute, feed.release
        ),
        HeldWork: lambda controls: WorkOnItsWay(
            scene, controls, nodes, feed, victim, owners.attribute
        ),
    }
    if isinstance(brokers, OwnCluster | AttachedBrokers):
        several = brokers.brokers if isinstance(brokers, OwnCluster) else ()
        through[Takeover] = lambda controls: BrokerTakenOver(scene, controls, several, last_hit)
    controls = WireControls(
        scene,
        brokers.wire,
        nodes,
        watching,
        abilities,
        through,
        fault,
    )
    return Parts(
        ground=(
            Opened(scene.make_folders, lambda: mask_files(scene.logs, LOGS)),  # when all has ended
            services,
            Opened(lambda: brokers.clean(scene.pipeline.topics)),
            Opened(matcher.check_output_is_fresh),
            Opened(transport.begin),
            Opened(lambda: _create(scene)),
            CellOnWire(scene),
            Opened(lambda: None, scene.lease.close),
            reading,
            feed,
        ),
        feed=feed,
        stages=reading,
        controls=controls,
        drain=lambda: PatientDrain(conditions, feed.loaded_at),
        authorities=(transport.observe, reading.tell_writes, elsewhere.tell),
        freed=(feed.release,),
        where=progress.told,
    )


LOGS = "*.log"
"""What the programs have printed: a cell's folder is kept, and shown to others."""


def _log(
    scene: Scene, stages: Mapping[Role, CommandNode], owners: Owners, matcher: RecordMatcher
) -> Transport:
    positions = Positions(scene, stages, owners, matcher)
    return Log(scene, positions, Authorities(scene, positions, matcher))


def _create(scene: Scene) -> None:
    """Create the topics, but not one that appears late."""
    pipeline = scene.pipeline
    late = {pipeline.topic} if isinstance(scene.cell.scenario.fault, TopicAppears) else set()
    if topics := [topic for topic in pipeline.topics if topic not in late]:
        scene.brokers.create(
            dict.fromkeys(topics, pipeline.partitions),
            pipeline.topic_settings,
            pipeline.broker.copies(pipeline.brokers),
        )


class CellOnWire:
    """Opens the cell on the wire, on all routes that its stages use."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._opened = False

    def open(self) -> None:
        """Open the cell on the wire."""
        scene, cell = self._scene, self._scene.cell
        fault, brokers = cell.scenario.fault, scene.brokers
        routes = (*brokers.routes(*map(str, scene.roles)), *scene.service_routes.names)
        if isinstance(brokers, OwnCluster) and isinstance(fault, TakenOver):
            routes += brokers.between if fault.turn.ahead else ()
        scene.brokers.wire.open_cell(
            cell.id,
            cell.key,
            scene.history_folder / "wire.jsonl",
            routes=routes,
            identity=scene.identity,
        )
        self._opened = True

    def close(self) -> None:
        """Close the cell on the wire. Note what the programs made on the brokers: a cell may have
        ended before anybody asked.
        """
        scene = self._scene
        if not self._opened:
            return
        try:
            if scene.pipeline.dialect.logs:
                joined = {group for role in scene.roles for group in scene.members.groups(role)}
                scene.kafka.note_made(scene.groups_seen() | joined, own_topics(scene.work))
        finally:
            scene.brokers.wire.close_cell(scene.cell.id)
