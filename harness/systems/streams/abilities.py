"""The abilities of a cell on Kafka Streams: lose or hold a state, end instances, watch
transactions, rebalance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.abilities import LocalState, Rebalance, Termination, Transactions
from harness.model import events as kinds
from harness.model.events import FaultPhase, RulePhase
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
"""The suffix of the client id with which an instance reads its changelog."""


def instance(node: Target) -> InstanceNode:
    """Return a node as an instance.

    Raises:
        TypeError: the node is not an instance.
    """
    if not isinstance(node, InstanceNode):
        raise TypeError(f"{node.name} is not an instance of a Kafka Streams application")
    return node


@dataclass
class Disks(LocalState):
    """Deletes and holds the local state of a cell's instances."""

    scene: Scene
    controls: WireControls

    def lose(self, node: Target) -> None:
        """Delete the instance's state, and write down its size."""
        say_forgot(
            self.scene,
            kinds.Fault(
                phase=FaultPhase.FORGOT,
                file="state",
                instance=node.name,
                bytes_before=instance(node).lose_state(),
                bytes_after=0,
            ),
        )

    def hold_restoring(self, node: Target) -> None:
        """Hold the first Fetch response to the restore consumer of the instance's next
        incarnation.
        """
        stage = instance(node).stage
        client = f"{{key}}.{stage.name}.{stage.incarnation + 1}-{RESTORES}"
        self.controls.put_beside(
            Rule(
                RESTORE,
                Action.HOLD,
                api=Api.FETCH,
                direction=Direction.RESPONSE,
                role=str(node.role),
                client=client,
            )
        )

    def restart_into(self, node: Target) -> str:
        """Start the instance, wait until its restore consumer's response is held, and return the id
        of the held frame.
        """
        instance(node).start()
        hits = self.scene.so_far.finder(
            kinds.Rule, lambda e: e.rule == RESTORE and e.phase == RulePhase.HIT
        )
        wait_until(hits, within_s=WITHIN_S, because="an instance to restore its state", poll_s=0.02)
        return str(hits()[0].held)

    def await_sent(self, node: Target) -> None:
        """Wait until the wire has seen this incarnation send the target's result."""
        by, target = f"{instance(node).stage.writer}.", self.scene.load.target.id
        sent = self.scene.so_far.finder(
            kinds.Sent, lambda e: e.record == target and str(e.attempt).startswith(by)
        )
        wait_until(
            sent,
            within_s=WITHIN_S,
            because=f"the {node.name} to send {target} from its store",
            poll_s=0.02,
        )


@dataclass
class Deploys(Termination):
    """Finds the instances of a cell that a fault tells to end, as a deploy does."""

    instances: Instances

    def stage(self, role: Role, node: str | None = None) -> InstanceNode:
        """Return the instance of a name; without a name, the first."""
        return next(
            each for each in self.instances.nodes if each.role is role and node in (None, each.name)
        )


@dataclass
class OpenTransactions(Transactions):
    """Watches the coordinator, which aborts an instance's open transactions. Kafka Streams chooses
    their ids.
    """

    scene: Scene

    def await_aborted(self, node: Target) -> None:
        """Wait until the coordinator has aborted the transaction with the instance's last
        transactional id.

        Raises:
            RuntimeError: the wire saw no transactional id of the application, or several.
        """
        client = instance(node).stage.client_id
        begun = [
            e
            for e in self.scene.so_far.of(kinds.InitProducer)
            if str(e.transactional_id).startswith(self.scene.group)
        ]
        name = begun[-1].transactional_id if begun else None
        if name is None or len({e.transactional_id for e in begun}) > 1:
            raise RuntimeError(f"{client}: the wire saw no transactional id, or several")
        wait_until(
            lambda: self.scene.observer.transaction(name) == "CompleteAbort",
            within_s=WITHIN_S,
            poll_s=0.05,
            because=f"the coordinator to abort the open transaction of the {node.name}",
        )


@dataclass
class InstancesGather(Rebalance):
    """Makes the group of an application share its tasks anew."""

    scene: Scene
    instances: Instances

    @property
    def joins(self) -> Api:
        """A JoinGroup request."""
        return Api.JOIN_GROUP

    def join(self, role: Role) -> None:
        """Start one more instance, and wait until it is a member of the group."""
        members = self.scene.members
        before = len(members())
        node = self.instances.reading.newcomer(role)
        node.start()
        wait_until(
            lambda: len(members()) > before,
            within_s=WITHIN_S,
            poll_s=0.05,
            because=f"{node.name} to join the group",
        )

    def await_asked(self, role: Role, sleeper: Target) -> None:
        """Wait for an OffsetFetch request of another instance, sent after the sleeper
        was stopped.
        """
        GroupRebalance(self.scene, self.instances.reading).await_asked(role, sleeper)
