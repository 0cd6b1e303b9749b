"""What a pipeline of somebody else's can suffer beyond the eight verbs."""

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
"""How long the others of a group may take to hear that one joins it again: they ask every 3 s."""
TELLING = (
    Api.HEARTBEAT, Api.CONSUMER_GROUP_HEARTBEAT, Api.OFFSET_COMMIT, Api.TXN_OFFSET_COMMIT, Api.JOIN_GROUP, Api.SYNC_GROUP,
)  # fmt: skip
"""Whose answers tell a client whether it is a member of its group."""


@dataclass
class ForeignMembership(Membership):
    """The members of the pipeline's groups, one of which was paused."""

    scene: Scene
    nodes: DeclaredNodes

    def await_expired(self, role: Role) -> None:
        """Wait until the groups have one member less than when the fault fired."""
        wait_until(lambda: self.nodes.membership() < self.nodes.members, within_s=PUT_OUT_S, poll_s=0.1,
                   because=f"the group to put out a paused {role} (its session time-out?)")  # fmt: skip

    def await_put_out(self, node: Target) -> None:
        """Wait until the process was told that it is no member any more, and has joined again if it does so at once.

        It was put out before it was woken: so any answer to it about its membership says so, and so does its end.
        """
        since, victim, so_far = time.monotonic_ns(), self.nodes.victim or 0, self.scene.so_far

        def ended() -> bool:
            return not is_alive(victim)

        late = so_far.finder(kinds.FRAME, lambda e: e["t"] > since and e["dir"] == Direction.RESPONSE)

        def answered(*apis: Api) -> bool:
            ports, labels = local_ports(victim), {api.label for api in apis}
            conns = {e["conn"] for e in so_far.of(kinds.CONN) if e.get("peer") in ports}
            return any(e["conn"] in conns and e["api"] in labels for e in late())

        told = f"the woken {node.name} to be told that it is out of the group"
        wait_until(lambda: ended() or answered(*TELLING), within_s=PUT_OUT_S, because=told, poll_s=0.05)
        with contextlib.suppress(WaitTimeoutError):  # it does not poll while it waits for what the wire holds
            wait_until(lambda: ended() or answered(Api.SYNC_GROUP), within_s=REJOINS_S, because="it to be a member again",
                       poll_s=0.05)  # fmt: skip


@dataclass
class StageTermination(Termination):
    """The stages of the pipeline, which can be told to end."""

    nodes: DeclaredNodes

    def stage(self, role: Role, node: str | None = None) -> CommandNode:
        """Return the stage of a role."""
        del node
        return self.nodes.stage(role)


@dataclass
class StandardInput(Input):
    """What the producer is given by standard input."""

    feed: DeclaredFeed

    def end(self) -> None:
        """Give it all records that are left, and the end."""
        self.feed.end_input()


@dataclass
class TracedWrites(DurableWrites):
    """The durable writes of a stage, as the kernel's tracer sees them."""

    scene: Scene
    controls: WireControls
    nodes: DeclaredNodes

    def arm(self, trigger: AtWrite) -> None:
        """Let the target wait on its way to the stage: from there on its durable writes are counted."""

        def trace(given: Fired) -> None:
            del given
            stage = self.nodes.stage(trigger.role)
            self.controls.undo(stage.untrace)
            stage.trace(self.scene.writes, trigger.point)

        self.controls.arm(trigger.since, rule_at(trigger.since, Action.HOLD, "given"))
        self.controls.approach(trigger, trigger.since, trace)
