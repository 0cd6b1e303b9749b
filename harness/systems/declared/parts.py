"""Put together the parts of a declared cell. The user's programs are not changed.

The wire says what was sent, acknowledged and fetched, the logs say what is stored, and the output
says what is recorded.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from harness.abilities import (
    Beginning,
    DurableWrites,
    GivingUp,
    HeldWork,
    Input,
    Membership,
    NewPartitions,
    SavedMarks,
    SavedPositions,
    Termination,
)
from harness.faults import NoFault, StartLate
from harness.model import events as kinds
from harness.model.events import ConnPhase
from harness.model.scenario import Deployment, Role
from harness.model.secrets import mask_files
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.pipelines.declaration import InputKind, OutputKind
from harness.protocols.kafka.steps import Api
from harness.run.controls import FIRE_S, Watching, WireControls
from harness.run.giving_up import WatchedClient
from harness.run.parts import Opened, Parts
from harness.systems.declared.abilities import (
    AddedPartitions,
    ForeignMembership,
    GroupPositions,
    StageTermination,
    StandardInput,
    TracedWrites,
)
from harness.systems.declared.drain.conditions import DrainConditions
from harness.systems.declared.drain.drain import PatientDrain
from harness.systems.declared.drain.progress import Progress
from harness.systems.declared.feed.feed import DeclaredFeed
from harness.systems.declared.overtaking import MarksInSource, WorkOnItsWay
from harness.systems.declared.programs.elsewhere import UnseenServers
from harness.systems.declared.programs.hints import Hints
from harness.systems.declared.programs.nodes import CommandNode
from harness.systems.declared.programs.owners import Owners
from harness.systems.declared.programs.services import Services
from harness.systems.declared.programs.targets import FaultTargets
from harness.systems.declared.programs.workers import Workers
from harness.systems.declared.programs.writes import WriteTracer
from harness.systems.declared.results.matcher import RecordMatcher
from harness.systems.declared.scene import Scene
from harness.systems.declared.transport.authorities import Authorities
from harness.systems.declared.transport.log import Log
from harness.systems.declared.transport.positions import Positions
from harness.systems.declared.transport.queue import Queue
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from harness.model.history import HistoryWriter
    from harness.pipelines.cells import DeclaredCell
    from harness.pipelines.declaration import Stage
    from harness.pipelines.programs import Program
    from harness.runtimes.interface import Runtime
    from harness.systems.declared.brokers.kafka import Brokers
    from harness.systems.declared.programs.services import SharedServices
    from harness.systems.declared.scene import Fetched, Learnt
    from harness.systems.declared.transport.interface import Transport
    from harness.systems.declared.wire.view import WireView

GATHERING = frozenset({Api.JOIN_GROUP.label, Api.SYNC_GROUP.label})
"""The requests to join a group, which the broker answers only when the other members have asked,
too.
"""
GATHER_S = 10.0
"""How long a group may gather: its members learn at their next heartbeat (3 s in most clients) that
they must join again.
"""
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
    learnt: Learnt,
    runtime_of: Callable[[Program], Runtime],
    shared_services: SharedServices,
) -> Parts:
    """Return what one cell is made of."""
    scene = Scene(cell, directory, history, brokers=brokers, fetched=fetched, learnt=learnt)
    nodes_by_role: dict[Role, CommandNode] = {}
    services = Services(scene, shared_services, runtime_of)
    maker = StageMaker(scene, nodes_by_role, lambda role: transport.expel(role))  # noqa: PLW0108 - it is made below
    for stage in scene.pipeline.stages:
        nodes_by_role[stage.known] = maker.make(stage, runtime_of(stage))
    own = cell.scenario.deployment is Deployment.OWN
    workers = Workers(nodes_by_role, lambda pid: nodes.is_victim(pid))  # noqa: PLW0108 - it is made below
    owners = Owners(scene, nodes_by_role, workers)
    matcher = RecordMatcher(scene)
    transport = (
        Queue(scene, matcher)
        if not scene.pipeline.dialect.logs
        else _log(scene, nodes_by_role, owners, matcher)
    )
    servers = {**(brokers.servers(history) if own else {}), **services.targets()}
    nodes = FaultTargets(scene, nodes_by_role, servers, owners, transport.members)
    feed = DeclaredFeed(scene, nodes_by_role, owners, lambda: controls.has_fired)
    progress = Progress(scene, matcher, transport.unanswered)
    reading = DeclaredStages(scene, nodes_by_role, owners)
    elsewhere = UnseenServers(scene, nodes_by_role, reading.traced)
    conditions = DrainConditions(
        scene,
        nodes_by_role,
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
        progress=lambda: (scene.view.last, matcher.results.size() if matcher.results else None),
        settled=transport.settled,
        exhausted=feed.exhausted,
        unanswered=transport.unanswered,
        idle_s=learnt.silences.still(cell, max(IDLE_S, scene.pipeline.output.quiet_s)),
        fire_s=learnt.silences.still(cell, FIRE_S),
        advance=scene.view.firsts,  # the output is not read while records flow: that may lock it
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
    }
    controls = WireControls(
        cell,
        scene.load,
        brokers.wire,
        scene.directory,
        history,
        scene.so_far,
        nodes,
        watching,
        abilities,
    )
    abilities[DurableWrites] = TracedWrites(scene, controls, nodes)
    abilities[SavedMarks] = MarksInSource(scene, controls, nodes, feed)
    abilities[HeldWork] = WorkOnItsWay(scene, controls, nodes, feed, owners.attribute)
    abilities[Beginning] = reading
    return Parts(
        ground=(
            Opened(scene.make_folders, lambda: mask_files(scene.logs, LOGS)),  # when all has ended
            services,
            Opened(matcher.check_output_is_fresh),
            Opened(lambda: brokers.clean(scene.pipeline.topics)),
            Opened(transport.begin),
            Opened(
                lambda: brokers.create(
                    dict.fromkeys(scene.pipeline.topics, scene.pipeline.partitions),
                    scene.pipeline.topic_settings,
                )
            ),
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


class CellOnWire:
    """Opens the cell on the wire, on all routes that its stages use."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._opened = False

    def open(self) -> None:
        """Open the cell on the wire."""
        scene, cell = self._scene, self._scene.cell
        routes = (*scene.brokers.routes(*map(str, scene.roles)), *scene.service_routes.names)
        scene.brokers.wire.open_cell(
            cell.id,
            cell.key,
            scene.history_folder / "wire.jsonl",
            routes=routes,
            identity=scene.identity,
        )
        self._opened = True

    def close(self) -> None:
        """Close the cell on the wire."""
        if self._opened:
            self._scene.brokers.wire.close_cell(self._scene.cell.id)


def is_gathering(seen: Iterable[kinds.Frame | kinds.Conn]) -> bool:
    """Say whether a group is still gathering: a request to join it, on a living connection, has no
    answer yet.

    In a stage of several processes the first may fetch before the others have joined. A fault at
    that moment would strike an incomplete group.
    """
    waiting: set[tuple[int | None, int | None]] = set()
    for event in seen:
        if isinstance(event, kinds.Frame):
            if event.api in GATHERING:
                asked = {(event.conn, event.corr)}
                waiting = waiting | asked if event.dir == Direction.REQUEST else waiting - asked
        elif event.phase == ConnPhase.CLOSE:
            waiting = {each for each in waiting if each[0] != event.conn}
    return bool(waiting)


class DeclaredStages(Beginning):
    """Starts the reading stages, and ends all stages. Implements
    :class:`harness.run.parts.Stages`.
    """

    def __init__(self, scene: Scene, stages: Mapping[Role, CommandNode], owners: Owners) -> None:
        self._scene = scene
        self._stages = stages
        self._owners = owners
        self._watch: WriteTracer | None = None

    def open(self) -> None:
        """Do nothing: the run calls :meth:`start`."""

    def start(self) -> None:
        """Start the reading stages, wait until they are ready, and log their durable writes if the
        dry run asks for that.
        """
        fault = self._scene.cell.scenario.fault
        late = fault.reader if isinstance(fault, StartLate) else None
        reading = [node for node in self._stages.values() if node.stage.reads]
        self._begin([node for node in reading if node.role != late])
        if isinstance(fault, NoFault) and fault.watched:
            self._watch = WriteTracer(reading, self._scene.directory / "writes")

    def begin(self, role: Role) -> None:
        """Start a stage that was left out, and wait until it is ready."""
        self._begin([self._stages[role]])

    def _begin(self, reading: Sequence[CommandNode]) -> None:
        for node in reading:
            node.start()
        for node in reading:
            node.await_ready()
        with suppress(
            WaitTimeoutError
        ):  # a group that never settles does not settle in the dry run, either
            wait_until(self._has_gathered, within_s=GATHER_S, because="the groups to have gathered")
        self._owners.attribute()

    def _has_gathered(self) -> bool:
        return not is_gathering(self._scene.so_far.of(kinds.Frame, kinds.Conn))

    def stand_by(self) -> None:
        """Do nothing: declared stages have no standby."""

    def tell_writes(self) -> None:
        """Write down the durable writes of each stage, if they were logged."""
        if self._watch is not None:
            scene = self._scene
            self._watch.tell(scene.history, scene.so_far.of(kinds.Conn, kinds.Fetched), scene.load)

    def traced(self, node: CommandNode) -> Path | None:
        """Return where the calls of a stage are logged; ``None``: they are not."""
        return None if self._watch is None else self._watch.traced(node)

    def close(self) -> None:
        """Stop every stage. An error is raised only after all stages were stopped."""
        with ExitStack() as ends:  # the last comes first
            for node in reversed([*self._stages.values()]):
                if node.started:
                    ends.callback(node.runtime.clear, self._scene.cell.key)
                    ends.callback(node.kill)


def begins_to_read(view: WireView, stage: Stage, since: int) -> bool:
    """Say whether a stage has begun to read since a time (monotonic ns).

    It has fetched. A reader that keeps its position elsewhere, such as a query of Spark, fetches
    nothing from an empty topic: it has begun when it was told where the topic ends. A member of a
    group has not: it may ask for that before it joins.
    """
    return view.fetched(stage.known) > since or (
        stage.position == "elsewhere" and view.told_ends(stage.known) > since
    )


class StageMaker:
    """Makes the stages of a cell. ``stages``: all stages by role; ``expel``: called when a stage of
    a role has died.
    """

    def __init__(
        self, scene: Scene, stages: Mapping[Role, CommandNode], expel: Callable[[Role], None]
    ) -> None:
        self._scene = scene
        self._stages = stages
        self._expel = expel

    def make(self, stage: Stage, runtime: Runtime) -> CommandNode:
        """Make a stage, without starting it."""
        scene, pipeline = self._scene, self._scene.pipeline
        feeds = stage.role is Role.PRODUCER and pipeline.input.kind is InputKind.STDIN
        hints = Hints(scene, stage.known, lambda: self._stages[stage.known].ended() is not None)
        prints = pipeline.output.kind is OutputKind.STDOUT and stage is pipeline.stages[-1]
        return CommandNode(
            stage=stage,
            values=scene.values(stage.known),
            runtime=runtime,
            history=scene.history,
            cell_key=scene.cell.key,
            directory=pipeline.directory,
            log=scene.logs / f"{stage.known}.log",
            failpoints=scene.failpoints,
            stdin=feeds,
            path=pipeline.path,
            prints=prints,
            hint=hints.why_unready,
            is_unread=hints.unread,
            buried=lambda: self._expel(stage.known),
            fetches=lambda since: begins_to_read(scene.view, stage, since),
        )
