"""What an application can suffer beyond the eight verbs: a lost state, a state half made anew, a transaction that ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.abilities import LocalState, Rebalance, Termination, Transactions
from harness.model import events as kinds
from harness.model.waiting import wait_until
from harness.protocols.kafka.steps import Api
from harness.systems.kafka.abilities import GroupRebalance, say_forgot
from harness.systems.streams.node import InstanceNode
from harness.systems.streams.proofs import RESTORE
from harness.wire.rules import Action, Direction, Rule

if TYPE_CHECKING:
    from harness.controls import Target
    from harness.model.scenario import Role
    from harness.run.controls import WireControls
    from harness.systems.kafka.scene import Scene
    from harness.systems.streams.instances import Instances

WITHIN_S = 60.0
RESTORES = "StateUpdater-1-restore-consumer"
"""The client by which an instance reads its changelog."""


def instance(node: Target) -> InstanceNode:
    """Return a node as the instance that it is.

    Raises:
        TypeError: it is a node of another kind.
    """
    if not isinstance(node, InstanceNode):
        raise TypeError(f"{node.name} is no instance of an application")
    return node


@dataclass
class Disks(LocalState):
    """The local states of a cell's instances."""

    scene: Scene
    controls: WireControls | None = field(default=None)
    """Of the cell; they are made of its abilities, and come after these."""

    def lose(self, node: Target) -> None:
        """Remove it, and say how large it was."""
        say_forgot(self.scene, file="state", instance=node.name, bytes_before=instance(node).lose_state(), bytes_after=0)

    def hold_restoring(self, node: Target) -> None:
        """Hold the first answer to its restore consumer's Fetch, in its next incarnation."""
        if self.controls is None:
            raise RuntimeError("there are no controls yet")
        stage = instance(node).stage
        client = f"{{key}}.{stage.name}.{stage.incarnation + 1}-{RESTORES}"
        self.controls.put_beside(
            Rule(RESTORE, Action.HOLD, api=Api.FETCH, direction=Direction.RESPONSE, role=str(node.role), client=client)
        )

    def restart_into(self, node: Target) -> str:
        """Start it, and wait for the hit of that rule."""
        instance(node).start()
        hits = self.scene.so_far.finder(kinds.RULE, lambda e: e["rule"] == RESTORE and e["phase"] == "hit")
        wait_until(hits, within_s=WITHIN_S, because="an instance to be making its state anew", poll_s=0.02)
        return str(hits()[0]["held"])

    def await_sent(self, node: Target) -> None:
        """Wait until the wire has seen its result of the target."""
        by, target = f"{instance(node).stage.writer}.", self.scene.load.target.id
        sent = self.scene.so_far.finder(kinds.SENT, lambda e: e["record"] == target and str(e["attempt"]).startswith(by))
        wait_until(sent, within_s=WITHIN_S, because=f"the {node.name} to send {target} by the clock", poll_s=0.02)


@dataclass
class Deploys(Termination):
    """The instances of a cell, which are told to end as a rolling deploy does it."""

    instances: Instances

    def stage(self, role: Role, node: str | None = None) -> InstanceNode:
        """Return the instance of a name, or the only one."""
        return next(each for each in self.instances.nodes if each.role is role and node in (None, each.name))


@dataclass
class OpenTransactions(Transactions):
    """Who ends the transactions that an instance has left open; Kafka Streams names them itself."""

    scene: Scene

    def await_aborted(self, node: Target) -> None:
        """Ask the coordinator about the last name that the instance began with."""
        client = instance(node).stage.client_id
        begun = [e for e in self.scene.so_far.of(kinds.INIT_PRODUCER) if str(e["transactional_id"]).startswith(self.scene.group)]
        name = begun[-1]["transactional_id"] if begun else None
        if name is None or len({e["transactional_id"] for e in begun}) > 1:
            raise RuntimeError(f"{client}: its transactions have no name, or several")
        wait_until(lambda: self.scene.observer.transaction(name) == "CompleteAbort", within_s=WITHIN_S, poll_s=0.05,
                   because=f"the coordinator to abort what the {node.name} has left open")  # fmt: skip


@dataclass
class InstancesGather(Rebalance):
    """How the group of an application shares its tasks."""

    scene: Scene
    instances: Instances

    def join(self, role: Role) -> None:
        """Start one more instance, and wait until it is a member."""
        members = self.scene.members
        before = len(members())
        node = self.instances.reading.newcomer(role)
        node.start()
        wait_until(lambda: len(members()) > before, within_s=WITHIN_S, poll_s=0.05, because=f"{node.name} to join")

    def await_asked(self, role: Role, sleeper: Target) -> None:
        """Wait for an OffsetFetch request of another, since the sleeper was stopped."""
        GroupRebalance(self.scene, self.instances.reading).await_asked(role, sleeper)
