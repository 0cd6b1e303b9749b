"""The abilities of a declared pipeline: what a fault can do to it beyond the basic actions of every
system.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.abilities import DurableWrites, Input, Membership, Termination
from harness.faults.triggers import rule_at
from harness.model import events as kinds
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.protocols.kafka.steps import Api
from harness.runtimes.process.processes import is_alive, local_ports
from harness.wire.rules import Action, Direction

if TYPE_CHECKING:
    from harness.controls import AtWrite, Fired, Target
    from harness.model.scenario import Role
    from harness.run.controls import WireControls
    from harness.systems.declared.feed import DeclaredFeed
    from harness.systems.declared.nodes import CommandNode
    from harness.systems.declared.scene import Scene
    from harness.systems.declared.who import DeclaredNodes

PUT_OUT_S = 75.0
"""Longer than the session time-out that clients have by themselves, 45 s."""
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
    nodes: DeclaredNodes

    def await_expired(self, role: Role) -> None:
        """Wait until the groups have one member less than when the fault fired."""
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
class StageTermination(Termination):
    """Finds the stages of the pipeline that a fault tells to end (SIGTERM)."""

    nodes: DeclaredNodes

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
    nodes: DeclaredNodes

    def arm(self, trigger: AtWrite) -> None:
        """Hold the target on its way to the stage, and count the stage's durable writes from then
        on.
        """

        def trace(given: Fired) -> None:
            del given
            stage = self.nodes.stage(trigger.role)
            self.controls.undo(stage.untrace)
            stage.trace(self.scene.writes, trigger.point)

        self.controls.arm(trigger.since, rule_at(trigger.since, Action.HOLD, "given"))
        self.controls.approach(trigger, trigger.since, trace)
