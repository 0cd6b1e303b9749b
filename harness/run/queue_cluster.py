"""A queue that several servers keep: who leads it when a fault fires, what becomes of that leader,
and what the files of each server hold.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from harness.controls import NotFiredError, await_met
from harness.model import events as kinds
from harness.model.record import decode_id
from harness.model.scenario import Role
from harness.model.takeovers import Led, Takeover
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.proofs.takeover import readers_of
from harness.run.nodes import ServerNode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.controls import Target
    from harness.run.controls import WireControls
    from harness.run.queue_replicas import Replicates
    from harness.run.scene import CellScene
    from harness.run.served import ServedNode
    from harness.run.who import LastHit

SYNC_S: Final = 60.0
"""How long (seconds) a cluster may take to elect a leader, or to copy what a server has missed."""
STORED_S: Final = 20.0
"""How long a leader may take to write what the wire has let through."""
TOLD_S: Final = 30.0
"""How long a program may take until it knows that a record was not taken."""


@dataclass
class QueueCluster:
    """The servers of one cell's queue. Also the part of the cell's ground that brings servers back
    which a fault left dead.
    """

    scene: CellScene
    queue: str
    """Its name, as clients write it."""
    broker: Replicates
    last_hit: LastHit
    _named: set[str] = field(default_factory=set)
    """The followers that the fault was given: who asks for another one gets another one."""

    # --- the cell's ground, its feed, its drain and its authorities -------------------------------

    def open(self) -> None:
        """Do nothing: the servers are up."""

    def close(self) -> None:
        """Restart the servers that a fault left dead."""
        for node in self.broker.nodes:
            if node.process().exit is not None:
                node.restart()

    def place(self) -> None:
        """Let each log be led by the server that its programs connect to: that of the records by
        the producers', that of the readers by the consumers'. Wait until all copies are in sync.
        """
        self._await(self._placed, "each log to be led by the server of its programs")
        self.say()

    def trouble(self) -> str | None:
        """Say which log has no leader, or a copy that is not in sync; ``None``: none has."""
        for led in self._led():
            if not led.leader:
                return f"{led.log} has no leader"
            if led.behind:
                return f"{led.log}: {', '.join(led.behind)} not in sync"
        return None

    def observe(self) -> None:
        """Write who leads at the end, and what the files of each server hold."""
        self.say()
        for server in self.broker.servers:
            for number, value in self.broker.copies(self.queue, server).items():
                self.scene.history.write(
                    kinds.Replica(
                        node=server.name,
                        topic=self.queue,
                        partition=0,
                        offset=number,
                        epoch=0,
                        record=decode_id(value),
                    )
                )

    # --- for the controls -------------------------------------------------------------------------

    def servers(self) -> Mapping[Role, Callable[[], Target]]:
        """Return, by role, a function that asks the cluster for the server of that role now."""
        return {role: partial(self._of_role, role) for role in (Role.LEADER, Role.FOLLOWER)}

    def _of_role(self, role: Role) -> ServerNode:
        leader = self.own(self.say()).leader
        if role is not Role.FOLLOWER:
            return self.node(leader, role)
        follower = next(each for each in self.followers(leader) if each.name not in self._named)
        self._named.add(follower.name)
        return follower

    def followers(self, leader: str) -> list[ServerNode]:
        """Return the servers that follow; the one to which the readers' programs connect, last."""
        names = [each.name for each in self.broker.servers if each.name != leader]
        names.sort(key=lambda name: name == self.broker.home(Role.CONSUMER).name)
        return [self.node(name, Role.FOLLOWER) for name in names]

    def node(self, name: str, role: Role = Role.BROKER) -> ServerNode:
        """Return a server as a node of the cell."""
        node = next(each for each in self.broker.nodes if each.name == name)
        return ServerNode(
            self.scene.history,
            node.process,
            node.kill,
            partial(self._restart, node),
            name,
            role,
            end_it=node.end,
            serves_at=lambda: {route.upstream_port for route in node.routes},
        )

    def _restart(self, node: ServedNode) -> None:
        """Start a server again. If it is the last one that was dead, wait until each log has a
        leader. Whether all copies are in sync again is left to the drain: if not, it says so.
        """
        node.restart()
        if any(each.process().exit is not None for each in self.broker.nodes):
            return
        with suppress(WaitTimeoutError):
            self._await(lambda: all(led.leader for led in self._led()), "each log to be led")
        self.say()

    def own(self, known: Sequence[Led]) -> Led:
        """Return, of the queue's logs, that of its records."""
        return next(led for led in known if led.log == self.queue)

    def say(self) -> list[Led]:
        """Write down who leads the queue's logs now; return it."""
        known: list[Led] = []

        def told() -> bool:
            known[:] = self._led()
            return True

        self._await(told, "a server to say who leads")
        for led in known:
            self.scene.history.write(
                kinds.Leadership(
                    topic=led.log,
                    partition=0,
                    leader=led.leader,
                    number=int(led.leader.rpartition("-")[2] or -1),
                    epoch=0,
                    controller="",
                    replicas=tuple(led.replicas),
                    isr=tuple(name for name in led.replicas if name not in led.behind),
                )
            )
        return known

    def await_led(self, logs: set[str], but_by: str) -> None:
        """Wait until other servers lead these logs, and write down which."""

        def taken_over() -> bool:
            known = {led.log: led.leader for led in self._led()}
            return all(known.get(log) not in {None, "", but_by} for log in logs)

        self._await(taken_over, f"another server than {but_by} to lead")
        self.say()

    def await_in_sync(self) -> None:
        """Wait until each log has a leader and all its copies are in sync; write down who leads."""
        self._await(lambda: self.trouble() is None, "all copies to be in sync")
        self.say()

    def _placed(self) -> bool:
        homes = {
            self.queue: self.broker.home(Role.PRODUCER).name,
            readers_of(self.queue): self.broker.home(Role.CONSUMER).name,
        }
        for led in self._led():
            if led.leader and led.leader != homes[led.log] and not led.behind:
                self.broker.hand_over(led, homes[led.log])
                return False
        return self.trouble() is None

    def _led(self) -> list[Led]:
        """Return who leads the queue's logs. Who is dead is not in sync, and leads nothing.

        Raises:
            OSError: no server can tell.
        """
        known = self.broker.led(self.queue)
        dead = {node.name for node in self.broker.nodes if node.process().exit is not None}
        return [
            replace(
                led,
                leader="" if led.leader in dead else led.leader,
                behind=tuple(n for n in led.replicas if n in dead or n in led.behind),
            )
            for led in known
        ]

    def _await(self, true: Callable[[], bool], because: str) -> None:
        def holds() -> bool:
            try:
                return true()
            except OSError:  # no server leads, or none says so
                return False

        wait_until(holds, within_s=SYNC_S, because=because, poll_s=0.1)


@dataclass
class QueueTakenOver(Takeover):
    """Takes over from the server that the frame was for. Implements
    :class:`harness.model.takeovers.Takeover`.
    """

    cluster: QueueCluster
    controls: WireControls
    _name: str = ""
    _led: set[str] = field(default_factory=set)
    """The logs that it led when the fault fired."""

    def begin(self) -> None:
        """Find that server, and write down what it leads.

        Raises:
            NotFiredError: it does not lead what the frame is about.
        """
        hit = self.cluster.last_hit.event
        if hit is None:
            raise NotFiredError("no frame was hit")
        self._name = str(hit.node)
        queue = self.cluster.queue
        about = readers_of(queue) if hit.role == Role.CONSUMER else queue
        self._led = {led.log for led in self.cluster.say() if led.leader == self._name}
        if about not in self._led:
            raise NotFiredError(f"the frame is for {self._name}, which does not lead {about}")

    def struck(self) -> ServerNode:
        """Return that server."""
        return self.cluster.node(self._name)

    def restart_others(self) -> None:
        """Shut each other server down in order and start it again, when all are in sync."""
        for node in self.cluster.broker.nodes:
            if node.name != self._name:
                self.cluster.await_in_sync()
                server = self.cluster.node(node.name)
                server.end()
                server.restart()

    def followers(self) -> list[ServerNode]:
        """Return all servers that follow: the leader alone is no majority."""
        return self.cluster.followers(self._name)

    def hold_copies(self) -> None:
        """Shut the followers down until the controls are disarmed, so that none gets the target."""
        for follower in self.followers():
            follower.end()
            self.controls.undo(follower.restart)

    def await_ahead(self) -> None:
        """Wait until the target is in a file of the server, and write down that no other has it.

        Raises:
            NotFiredError: the server does not write it.
        """
        scene, broker = self.cluster.scene, self.cluster.broker
        mark = scene.load.target.encode(scene.cell.key)

        def has(name: str) -> bool:
            folder = next(each.data for each in broker.servers if each.name == name)
            return any(mark in file.read_bytes() for file in folder.rglob("*") if file.is_file())

        await_met(
            lambda: has(self._name),
            STORED_S,
            f"{self._name} to write the record",
        )
        if not any(has(each.name) for each in broker.servers if each.name != self._name):
            scene.history.write(kinds.Alone(record=scene.load.target.id))

    def await_short(self) -> None:
        """Write down that the followers are out of sync: they are dead."""
        self.cluster.say()

    def await_refused(self) -> None:
        """Wait until the producer knows that the target was not taken, or has gone on without
        knowing.

        Raises:
            NotFiredError: it does neither.
        """
        scene = self.cluster.scene
        target = scene.load.target.id

        def told() -> bool:
            return any(e.record == target for e in scene.so_far.of(kinds.Unknown, kinds.Refused))

        await_met(told, TOLD_S, "the producer to know that it has no answer")

    def elect(self) -> None:
        """Ask for another leader of what the server leads, and wait until others lead."""
        queue = self.cluster.queue
        hit = self.cluster.last_hit.event
        about = readers_of(queue) if hit and hit.role == Role.CONSUMER else queue
        for led in self.cluster.say():
            if led.log == about:
                self.cluster.broker.hand_over(led)
        self.cluster.await_led({about}, self._name)

    def await_taken_over(self) -> None:
        """Wait until other servers lead what it led, and write down which."""
        self.cluster.await_led(self._led, self._name)

    def await_in_sync(self) -> None:
        """Wait until all copies are in sync again, and write down who leads."""
        self.cluster.await_in_sync()
