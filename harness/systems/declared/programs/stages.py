"""The stages of a cell: made, started in order, ended."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING

from harness.abilities import Beginning
from harness.faults import (
    ChangesGroup,
    InBacklog,
    NoFault,
    StartLate,
    TopicAppears,
)
from harness.model import events as kinds
from harness.model.events import ConnPhase
from harness.model.scenario import Role
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.pipelines.inputs import InputKind
from harness.pipelines.outputs import OutputKind
from harness.protocols.kafka.steps import Api
from harness.systems.declared.programs.command import StageCommand
from harness.systems.declared.programs.hints import Hints
from harness.systems.declared.programs.nodes import CommandNode
from harness.systems.declared.programs.writes import WriteTracer
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from harness.pipelines.stages import Stage
    from harness.runtimes.interface import Runtime
    from harness.systems.declared.programs.owners import Owners
    from harness.systems.declared.scene import Scene
    from harness.systems.declared.wire.members import GroupMembers
    from harness.systems.declared.wire.stages import StagesOnWire

GATHERING = frozenset({Api.JOIN_GROUP.label, Api.SYNC_GROUP.label})
"""The requests to join a group, which the broker answers only when the other members have asked,
too.
"""
GATHER_S = 10.0
"""How long a group may gather: its members learn at their next heartbeat (3 s in most clients) that
they must join again.
"""
ABORTED_S = 15.0
"""How long after its time-out the broker ends a transaction (seconds), at the latest: it looks for
such every 10 s (transaction.abort.timed.out.transaction.cleanup.interval.ms).
"""


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


def have_gathered(members: GroupMembers, node: CommandNode) -> bool:
    """Whether each process of a stage that lostack starts has joined a group, and each that is to
    share the records was assigned partitions, or told that there are none for it.

    One process may be several members: a worker of Kafka Connect is one of the workers, and each of
    its tasks reads as another. If there are fewer tasks than workers, some only stand by.
    """
    assigned, joined = members.of(node.name), members.joined(node.name)
    return (
        len(_processes(members, node, assigned)) >= node.command.sharing
        and len(_processes(members, node, joined)) >= node.command.members
    )


def _processes(
    members: GroupMembers, node: CommandNode, lines: Iterable[kinds.GroupMember]
) -> set[int]:
    """Return the numbers of the processes that these members are."""
    pids = {pid for line in lines if (pid := members.pid(line)) is not None}
    return {number for pid in pids if (number := node.processes.number_of(pid))}


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
        late = fault.reader if isinstance(fault, StartLate | TopicAppears | InBacklog) else None
        reading = [node for node in self._stages.values() if node.command.stage.reads]
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
        """Whether no member waits to join, and stages of several processes are complete."""
        if is_gathering(self._scene.so_far.of(kinds.Frame, kinds.Conn)):
            return False
        scaled = [node for node in self._stages.values() if node.command.scaled and node.started]
        if scaled:
            self._owners.attribute()
        return all(have_gathered(self._scene.members, node) for node in scaled)

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


def held_up_s(seen: StagesOnWire, stage: Stage) -> float:
    """Return how long a stage may be held up yet by transactions that its dead processes left open
    (seconds).

    Until the broker ends them, it answers each OffsetFetch with UNSTABLE_OFFSET_COMMIT. A client
    that begins its own transactions before it reads ends them itself; one that does so at its first
    record waits for their time-out.
    """
    end = seen.transactions_end(stage.known)
    return max(0.0, (end - time.monotonic_ns()) / 1e9 + ABORTED_S) if end else 0.0


def begins_to_read(seen: StagesOnWire, stage: Stage, since: int) -> bool:
    """Say whether a stage has begun to read since a time (monotonic ns).

    It has fetched. A reader that keeps its position elsewhere, such as a query of Spark, fetches
    nothing from an empty topic: it has begun when it was told where the topic ends. A member of a
    group has not: it may ask for that before it joins.
    """
    return seen.fetched(stage.known) > since or (
        stage.position == "elsewhere" and seen.told_ends(stage.known) > since
    )


def make_stage(
    scene: Scene,
    stage: Stage,
    runtime: Runtime,
    buried: Callable[[], None],
    put_out: Callable[[int], None] = lambda _: None,
) -> CommandNode:
    """Make a stage of a cell, without starting it. ``buried``: called when the stage has died,
    ``put_out`` when one process of it has.
    """
    pipeline, role, fault = scene.pipeline, stage.known, scene.cell.scenario.fault
    return CommandNode(
        StageCommand(
            stage,
            scene.values(role),
            pipeline.directory,
            scene.logs / f"{role}.log",
            scene.failpoints,
            stdin=stage.role is Role.PRODUCER and pipeline.input.kind is InputKind.STDIN,
            path=pipeline.path,
            members=stage.scale - (isinstance(fault, ChangesGroup) and fault.joins),
            prints=pipeline.output.kind is OutputKind.STDOUT and stage is pipeline.stages[-1],
        ),
        runtime,
        scene.history,
        scene.cell.key,
        fetches=partial(begins_to_read, scene.stages_seen, stage),
        held_up_s=partial(held_up_s, scene.stages_seen, stage),
        hints=Hints(scene, role),
        buried=buried,
        put_out=put_out,
    )
