"""The abilities of a cell on Kafka: what a fault can do to it beyond the basic actions of every
system.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafka.partitioner.default import murmur2
from msgspec import structs

from harness.abilities import (
    BadNetwork,
    Ledger,
    Membership,
    Partitions,
    PowerLoss,
    Rebalance,
    SavedPositions,
    SessionClock,
    Succession,
    Supervision,
    Transactions,
)
from harness.model import events as kinds
from harness.model.events import FaultPhase, NodePhase
from harness.model.scenario import Role
from harness.model.waiting import wait_until
from harness.protocols.kafka.steps import Api
from harness.run.nodes import StageNode
from harness.systems.kafka.broker import INTERNAL_TOPICS
from harness.systems.kafka.stages import next_producer
from harness.wire.rules import Direction, is_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from harness.controls import Target
    from harness.model.tail import SoFar
    from harness.run.controls import Watching
    from harness.run.stages import Producing, Reading
    from harness.services.toxiproxy import Toxic
    from harness.systems.kafka.broker import Broker
    from harness.systems.kafka.place import PlaceOnWire
    from harness.systems.kafka.scene import Scene
    from harness.wire.messages import Traffic

WITHIN_S = 60.0
"""How long (seconds) an ability waits for an event."""
EXPULSION_S = 30.0
LOOK_S = 2.0
"""How late (seconds) a client may notice that its session is over."""
JOIN_S = 30.0


def stage_of(node: Target, lacks: str) -> StageNode:
    """Return a node as a stage.

    ``lacks``: the end of the error message, which says what other nodes do not have.

    Raises:
        TypeError: the node is not a stage.
    """
    if not isinstance(node, StageNode):
        raise TypeError(f"{node.name} {lacks}")
    return node


def requests_since(
    so_far: SoFar, api: Api, *clients: str, since: int = 0
) -> Callable[[], Sequence[kinds.Frame]]:
    """Return a function that returns the requests of an API so far that these clients have sent
    after a time (monotonic ns).
    """
    return so_far.finder(
        kinds.Frame,
        lambda e: (
            e.api == api.label and e.dir == Direction.REQUEST and _is_of(e, *clients, since=since)
        ),
    )


def _is_of(frame: kinds.Frame, *clients: str, since: int) -> bool:
    """Whether a frame is of one of these clients (by the beginnings of their ids), and passed after
    a time.
    """
    name = frame.client
    return (
        frame.t > since and name is not None and any(is_prefix(client, name) for client in clients)
    )


@dataclass
class FlushedFiles(PowerLoss):
    """Reverts a broker's files to what it has flushed."""

    scene: Scene

    def await_flush_known(self) -> None:
        """Wait until every broker has written its recovery points twice: the second write began
        after this call.
        """
        for broker in self.scene.transport.brokers:
            seen = {broker.checkpoint()}

            def twice(broker: Broker = broker, seen: set[tuple[int, int]] = seen) -> bool:
                seen.add(broker.checkpoint())
                return len(seen) > 2  # noqa: PLR2004 - the one there was, and two written since

            wait_until(
                twice,
                within_s=WITHIN_S,
                because=f"{broker.name} to write its recovery points twice",
            )

    def forget_unflushed(self, *, internal_topics: bool) -> None:
        """Revert the cell's topics to their flushed state, on every broker that is down."""
        topics, history = self.scene.topics, self.scene.history
        names = (*topics, *(INTERNAL_TOPICS if internal_topics else ()))
        dead = [
            broker for broker in self.scene.transport.brokers if broker.process().exit is not None
        ]
        points: dict[str, int] = {}
        for broker in dead:
            for folder, offset in broker.flushed(topics[:1]).items():
                points[folder] = min(points.get(folder, offset), offset)
        for folder, offset in points.items():
            history.write(kinds.Flushed(partition=int(folder.rsplit("-", 1)[1]), offset=offset))
        for broker in dead:
            for folder, (before, after) in broker.forget_unflushed(names).items():
                say_forgot(
                    self.scene,
                    kinds.Fault(
                        phase=FaultPhase.FORGOT,
                        node=broker.name,
                        file=folder,
                        bytes_before=before,
                        bytes_after=after,
                    ),
                )


def say_forgot(scene: Scene, what: kinds.Fault) -> None:
    """Write to the history that something which was stored is gone."""
    scene.history.write(structs.replace(what, fault=scene.cell.scenario.fault.id))


@dataclass
class GroupPositions(SavedPositions):
    """Deletes and watches the positions that a group has saved with its coordinator."""

    scene: Scene

    def forget(self) -> None:
        """Remove the dead members, delete the group, and write down the positions it had saved.

        Raises:
            RuntimeError: the group still has a saved position.
        """
        observer, group = self.scene.observer, self.scene.group
        had = self.scene.group_positions()
        observer.expel(group)
        wait_until(
            lambda: not self.scene.members(),
            within_s=EXPULSION_S,
            because="the group to be empty",
            poll_s=0.1,
        )
        observer.forget((), [group])
        if left := self.scene.group_positions():
            raise RuntimeError(
                f"the group {group} was deleted, but it still has saved positions: {left}"
            )
        say_forgot(
            self.scene,
            kinds.Fault(
                phase=FaultPhase.FORGOT,
                group=group,
                positions={str(partition): offset for partition, offset in had.items()},
            ),
        )

    def await_reading(self, node: Target, *, anew: bool = False) -> None:
        """Wait for the first Fetch request of the node's present incarnation; with ``anew``, for
        two more requests.
        """
        stage = stage_of(node, "reads nothing")
        client = stage.stage.client_id
        fetches = requests_since(self.scene.so_far, Api.FETCH, client)
        want = len(fetches()) + 2 if anew else 1
        wait_until(
            lambda: stage.ended() is not None or len(fetches()) >= want,
            within_s=WITHIN_S,
            poll_s=0.1,
            because=f"{stage.name} to ask for records",
        )


@dataclass
class GroupMembership(Membership):
    """Watches the members of the cell's group."""

    scene: Scene
    reading: Reading
    _put_out_ns: int = 0
    """When the group was seen without the removed member (monotonic ns): answers after that tell it
    so.
    """

    def await_expired(self, role: Role) -> None:
        """Wait until the group has one member fewer than the cell has processes of this role."""
        want = sum(node.role is role for node in self.reading.nodes) - 1
        wait_until(
            lambda: len(self.scene.members()) <= want,
            within_s=EXPULSION_S,
            poll_s=0.1,
            because=f"the group to remove a paused {role}",
        )
        self._put_out_ns = time.monotonic_ns()

    def await_put_out(self, node: Target) -> None:
        """Wait until the coordinator has answered the removed member once."""
        client, since = stage_of(node, "is a member of no group").stage.client_id, self._put_out_ns
        told = {api.label for api in (Api.HEARTBEAT, Api.JOIN_GROUP, Api.CONSUMER_GROUP_HEARTBEAT)}
        answered = self.scene.so_far.finder(
            kinds.Frame,
            lambda e: (
                e.dir == Direction.RESPONSE and e.api in told and _is_of(e, client, since=since)
            ),
        )
        wait_until(
            answered,
            within_s=WITHIN_S,
            because=f"{node.name} to be told that it is no longer in its group",
            poll_s=0.05,
        )


@dataclass
class GroupRebalance(Rebalance):
    """Makes the cell's group share its work anew."""

    scene: Scene
    reading: Reading

    @property
    def joins(self) -> Api:
        """A JoinGroup request."""
        return Api.JOIN_GROUP

    def join(self, role: Role) -> None:
        """Start one more process of a role, and wait until it is a member of the group."""
        node = self.reading.newcomer(role)
        node.start()
        joined = lambda: node.stage.client_id in self.scene.members().values()  # noqa: E731
        wait_until(joined, within_s=JOIN_S, poll_s=0.05, because=f"{node.name} to join the group")

    def await_asked(self, role: Role, sleeper: Target) -> None:
        """Wait for an OffsetFetch request of another process, sent after the sleeper
        was stopped.
        """
        so_far, key = self.scene.so_far, self.scene.cell.key
        since = max(
            e.t
            for e in so_far.of(kinds.Node)
            if e.phase == NodePhase.PAUSED and e.node == sleeper.name
        )
        others = [
            f"{key}.{node.name}"
            for node in self.reading.nodes
            if node.role is role and node.name != sleeper.name
        ]
        found = requests_since(so_far, Api.OFFSET_FETCH, *others, since=since)
        wait_until(
            found,
            within_s=WITHIN_S,
            because=f"another {role} to ask for positions of what it took over",
            poll_s=0.1,
        )


@dataclass
class ReaderClock(SessionClock):
    """Waits for the end of the readers' sessions, by the readers' own clocks."""

    scene: Scene

    def outlast(self) -> None:
        """Wait until a session that starts now is over for the client, too; clients check about
        once a second.
        """
        session_s = self.scene.settings.consumer.session_ms / 1000
        over = time.monotonic() + session_s + LOOK_S
        wait_until(
            lambda: time.monotonic() >= over,
            within_s=session_s + WITHIN_S,
            because="a session to be over",
            poll_s=0.05,
        )


@dataclass
class Coordinator(Transactions):
    """Watches the transaction coordinator, which aborts transactions that stay open too long."""

    scene: Scene

    def await_aborted(self, node: Target) -> None:
        """Wait until the coordinator has aborted the transaction of a stopped process."""
        name = stage_of(node, "has no transaction").stage.transactional_id
        wait_until(
            lambda: self.scene.observer.transaction(name) == "CompleteAbort",
            within_s=WITHIN_S,
            poll_s=0.05,
            because=f"the coordinator to abort the open transaction of the {node.name}",
        )


@dataclass
class Supervisor(Supervision):
    """Restarts a process that ended with an error."""

    watching: Watching

    def supervise(self, node: Target) -> None:
        """Wait until the process has ended or has done all its work; restart it if it ended with an
        error.
        """
        stage, watching = stage_of(node, "has no supervisor"), self.watching
        wait_until(
            lambda: stage.ended() or (watching.exhausted() and watching.settled()),
            within_s=WITHIN_S,
            poll_s=0.05,
            because=f"{stage.name} to end, or to go on",
        )
        end = stage.ended()
        if end is not None and end.status != 0:
            stage.begin_supervised()
            stage.await_back()


@dataclass
class NextProducer(Succession):
    """Starts a second producer in the place of the first. A consumer needs no such thing: its group
    shares the work.
    """

    scene: Scene
    producing: Producing

    def stand_in(self, role: Role) -> None:
        """Start a second producer.

        Raises:
            TypeError: the role is not the producer.
        """
        if role is not Role.PRODUCER:
            raise TypeError(f"only a producer can be replaced, not a {role}")
        self.producing.succeed(next_producer(self.scene, self.producing.node))
        self.producing.node.restart()

    def await_zombie(self, node: Target) -> None:
        """Wait until the first producer has ended: it was fenced, or has sent everything."""
        stage = stage_of(node, "was not replaced")
        wait_until(
            stage.ended, within_s=WITHIN_S, because=f"the replaced {stage.name} to end", poll_s=0.05
        )


@dataclass
class Proxies(BadNetwork):
    """Puts toxics of Toxiproxy on the connections of the cell's clients."""

    place: PlaceOnWire

    def worsen(self, roles: Iterable[Role], toxics: Iterable[Toxic]) -> None:
        """Add toxics to the cell's proxies, and count traffic from then on."""
        for role in roles:
            self.place.network.worsen(role, toxics)

    def mend(self, roles: Iterable[Role], toxics: Iterable[Toxic]) -> None:
        """Remove the toxics, and write down how much traffic passed meanwhile."""
        for role in roles:
            self.place.network.mend(role, toxics)

    def await_traffic(self, role: Role, enough: Callable[[Traffic], bool], because: str) -> None:
        """Wait until the traffic that the wire counted is ``enough``."""
        wait_until(
            lambda: enough(self.place.network.traffic(role)),
            within_s=WITHIN_S,
            because=because,
            poll_s=0.05,
        )


@dataclass
class Ledgers(Ledger):
    """Reads what lostack's programs wrote into their ledgers."""

    scene: Scene

    def await_told_unknown(self) -> None:
        """Wait until the producer's ledger says that the outcome of the target is unknown."""
        told = self.scene.so_far.finder(
            kinds.Unknown, lambda e: e.record == self.scene.load.target.id
        )
        wait_until(
            told,
            within_s=WITHIN_S,
            because="the producer to note that the target's outcome is unknown",
            poll_s=0.05,
        )


@dataclass
class SourceTopic(Partitions):
    """Adds partitions to the source topic."""

    scene: Scene
    _grows_ns: int = field(default=0, init=False)
    """When the partitions were requested (monotonic ns): a member may learn of them before the
    observer does.
    """

    def add(self) -> None:
        """Add partitions. Every client here places a key by its murmur2 hash, so the number decides
        where the target goes.
        """
        scene = self.scene
        before = scene.settings.topic.partitions + scene.added
        later = [record.key for record in scene.load.records[scene.load.target.position :]]
        after = sized(scene.load.target.key, later, before)
        self._grows_ns = time.monotonic_ns()
        scene.observer.grow(scene.source, after)
        scene.added += after - before
        for partition in range(before, after):
            scene.history.write(kinds.Added(topic=scene.source, partition=partition, before=before))

    def await_known(self, node: Target) -> None:
        """Wait until the node's client has asked for metadata twice since the topic grew, and so
        has been answered once.
        """
        so_far, client = self.scene.so_far, stage_of(node, "asks for no metadata").stage.client_id
        since = max(e.t for e in so_far.of(kinds.Added))
        found = requests_since(so_far, Api.METADATA, client, since=since)
        wait_until(
            lambda: len(found()) > 1,
            within_s=WITHIN_S,
            because=f"{node.name} to learn of new partitions",
            poll_s=0.05,
        )

    def await_shared_out(self) -> None:
        """Wait until the members of the group report that they own all added partitions."""
        so_far = self.scene.so_far
        added = {e.partition for e in so_far.of(kinds.Added)}

        def given() -> bool:
            late = (e for e in so_far.of(kinds.Ready) if e.t > self._grows_ns)
            last = {e.by: set(e.partitions or ()) for e in late}
            return added <= set().union(*last.values())

        wait_until(
            given,
            within_s=WITHIN_S,
            because="the group to assign the added partitions",
            poll_s=0.05,
        )


def sized(target: str, later: Sequence[str], before: int) -> int:
    """Return the new number of partitions of a topic that has ``before``.

    It is the least number at which the key ``target`` moves to a new partition. If possible with at
    most ten times as many partitions, some key of ``later`` stays in an old one.
    """
    moves = [
        size for size in range(before + 1, 100 * before + 2) if partition_of(target, size) >= before
    ]
    both = (
        size
        for size in moves
        if size <= 10 * before and any(partition_of(key, size) < before for key in later)
    )
    return next(both, moves[0])


def partition_of(key: str, partitions: int) -> int:
    """Return the partition in which every client here puts a key."""
    return int(murmur2(key.encode()) & 0x7FFFFFFF) % partitions
