"""The abilities of a declared pipeline: what a fault can do to it beyond the basic actions of every
system.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.abilities import (
    DurableWrites,
    Input,
    Membership,
    NewPartitions,
    SavedPositions,
    Termination,
)
from harness.faults.triggers import rule_at
from harness.model import events as kinds
from harness.model.events import FaultPhase
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.protocols.kafka.steps import Api
from harness.runtimes.process.processes import is_alive, local_ports
from harness.systems.declared.transport.log import expel_process
from harness.wire.rules import Action, Direction

if TYPE_CHECKING:
    from harness.controls import AtWrite, Fired, Target
    from harness.model.scenario import Role
    from harness.run.controls import WireControls
    from harness.systems.declared.feed.feed import DeclaredFeed
    from harness.systems.declared.programs.nodes import CommandNode
    from harness.systems.declared.programs.targets import FaultTargets
    from harness.systems.declared.scene import Scene

PUT_OUT_S = 75.0
"""Longer than the session time-out that clients have by themselves, 45 s."""
GROWS = 4
"""How many times as many partitions a topic has when some were added."""
FILLED_S = 20.0
"""How long it may take until a producer that has started again sends to a new partition; or longer,
where the dry run's silences were longer.
"""
EMPTY_S = 20.0
"""How long a group may take to lose its dead members."""
REJOINS_S = 10.0
"""How long the other members of a group may take to hear that a member joins again: they send a
heartbeat every 3 s.
"""
TELLING = (
    Api.HEARTBEAT,
    Api.CONSUMER_GROUP_HEARTBEAT,
    Api.OFFSET_COMMIT,
    Api.TXN_OFFSET_COMMIT,
    Api.JOIN_GROUP,
    Api.SYNC_GROUP,
)
"""The requests whose answers tell a client whether it is a member of its group."""


@dataclass
class ForeignMembership(Membership):
    """Watches the members of the pipeline's consumer groups while one of them is paused."""

    scene: Scene
    nodes: FaultTargets

    def await_expired(self, role: Role) -> None:
        """Put the paused member out, as its session time-out would, only sooner; wait until the
        groups have one member less than when the fault fired.
        """
        if self.nodes.victim is not None:
            expel_process(self.scene, role, self.nodes.victim)
        wait_until(
            lambda: self.nodes.membership() < self.nodes.members,
            within_s=PUT_OUT_S,
            poll_s=0.1,
            because=f"the group to remove a paused {role} (check its session time-out)",
        )

    def await_put_out(self, node: Target) -> None:
        """Wait until the process was told that it is no longer a member; if it joins again at once,
        wait for that, too.

        The group removed it before it was woken, so any answer about its membership tells it so.
        The end of the process counts as well.
        """
        since, victim, so_far = time.monotonic_ns(), self.nodes.victim or 0, self.scene.so_far

        def ended() -> bool:
            return not is_alive(victim)

        late = so_far.finder(kinds.Frame, lambda e: e.t > since and e.dir == Direction.RESPONSE)

        def answered(*apis: Api) -> bool:
            ports, labels = local_ports(victim), {api.label for api in apis}
            conns = {e.conn for e in so_far.of(kinds.Conn) if e.peer in ports}
            return any(e.conn in conns and e.api in labels for e in late())

        told = f"the woken {node.name} to be told that it is out of the group"
        wait_until(
            lambda: ended() or answered(*TELLING), within_s=PUT_OUT_S, because=told, poll_s=0.05
        )
        with contextlib.suppress(
            WaitTimeoutError
        ):  # it does not poll while it waits for what the wire holds
            wait_until(
                lambda: ended() or answered(Api.SYNC_GROUP),
                within_s=REJOINS_S,
                because="it to be a member again",
                poll_s=0.05,
            )


@dataclass
class GroupPositions(SavedPositions):
    """Deletes the positions that the pipeline's groups have saved."""

    scene: Scene

    def forget(self) -> None:
        """Remove the dead members of the groups that saved positions, and delete these groups; the
        history says which.
        """
        scene, observer = self.scene, self.scene.kafka.observer
        groups = scene.kafka.deletable_groups(scene.groups_seen())
        for group in groups:
            had = {topic: observer.positions(group, topic) for topic in scene.pipeline.topics}
            observer.expel(group)
            wait_until(
                lambda group=group: not observer.members(group),  # type: ignore[misc]  # bound at once
                within_s=EMPTY_S,
                because=f"the group {group} to be empty",
                poll_s=0.1,
            )
            observer.forget((), [group])
            scene.history.write(
                kinds.Fault(
                    phase=FaultPhase.FORGOT,
                    fault=scene.cell.scenario.fault.id,
                    group=group,
                    positions={
                        f"{topic}/{partition}": offset
                        for topic, positions in had.items()
                        for partition, offset in positions.items()
                    },
                )
            )

    def await_reading(self, node: Target, *, anew: bool = False) -> None:
        """Do nothing: a stage that was started again is ready when it reads."""


@dataclass
class AddedPartitions(NewPartitions):
    """Adds partitions to the topic between the first stages."""

    scene: Scene
    feed: DeclaredFeed

    def add(self) -> None:
        """Make the topic so large that most keys move to new partitions."""
        scene, topic = self.scene, self.scene.pipeline.topic
        before = scene.pipeline.partitions
        scene.kafka.observer.grow(topic, before * GROWS)
        scene.added = before * (GROWS - 1)
        for partition in range(before, before * GROWS):
            scene.history.write(kinds.Added(topic=topic, partition=partition, before=before))

    def await_filled(self) -> None:
        """Let all records through, and wait until one is in an added partition.

        Raises:
            NotFiredError: none is.
        """
        scene, topic = self.scene, self.scene.pipeline.topic
        self.feed.release()
        scene.await_met(
            lambda: any(
                ends.end > 0
                for partition, ends in scene.kafka.observer.ends(topic).items()
                if partition >= scene.pipeline.partitions
            ),
            FILLED_S,
            f"a record in an added partition of {topic}",
        )


@dataclass
class StageTermination(Termination):
    """Finds the stages of the pipeline that a fault tells to end (SIGTERM)."""

    nodes: FaultTargets

    def stage(self, role: Role, node: str | None = None) -> CommandNode:
        """Return the stage of a role."""
        del node
        return self.nodes.stage(role)


@dataclass
class StandardInput(Input):
    """Ends the standard input of the producer."""

    feed: DeclaredFeed

    def end(self) -> None:
        """Give the producer all remaining records, then close its standard input."""
        self.feed.end_input()


@dataclass
class TracedWrites(DurableWrites):
    """Stops a stage at one of its durable writes, which ``ptrace`` shows."""

    scene: Scene
    controls: WireControls
    nodes: FaultTargets

    def arm(self, trigger: AtWrite) -> None:
        """Hold the target on its way to the stage, and count the stage's durable writes from then
        on.
        """

        def trace(given: Fired) -> None:
            del given
            stage = self.nodes.stage(trigger.role)
            self.controls.undo(stage.tracer.end)
            stage.tracer.start(self.scene.writes, trigger.point)

        self.controls.arm(trigger.since, rule_at(trigger.since, Action.HOLD, "given"))
        self.controls.approach(trigger, trigger.since, trace)
