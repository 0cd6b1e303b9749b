"""What Kafka, and our stages around it, can do beyond the eight verbs: the abilities of a cell."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafka.partitioner.default import murmur2

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
from harness.model.scenario import Role
from harness.model.waiting import wait_until
from harness.protocols.kafka.steps import Api
from harness.run.nodes import StageNode
from harness.stages.settings import GroupProtocol
from harness.systems.kafka.broker import INTERNAL_TOPICS
from harness.systems.kafka.stages import next_producer
from harness.wire.rules import Direction, is_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from harness.controls import Target
    from harness.model.history import Event
    from harness.model.tail import SoFar
    from harness.run.controls import Watching
    from harness.run.stages import Producing, Reading
    from harness.services.toxiproxy import Toxic
    from harness.systems.kafka.broker import Broker
    from harness.systems.kafka.place import PlaceOnWire
    from harness.systems.kafka.scene import Scene
    from harness.wire.messages import Traffic

WITHIN_S = 60.0
"""How long what an ability waits for may take."""
EXPULSION_S = 30.0
LOOK_S = 2.0
"""How late a client may notice that its session is over."""
JOIN_S = 30.0


def stage_of(node: Target, lacks: str) -> StageNode:
    """Return a node as the stage that it is.

    Raises:
        TypeError: it is a node of another kind.
    """
    if not isinstance(node, StageNode):
        raise TypeError(f"{node.name} {lacks}")
    return node


def asked(so_far: SoFar, api: Api, wanted: Callable[[Event], bool]) -> Callable[[], Sequence[Event]]:
    """Return what returns the requests of an API that have come so far, and are ``wanted``."""
    return so_far.finder(kinds.FRAME, lambda e: e["api"] == api.label and e["dir"] == Direction.REQUEST and wanted(e))


@dataclass
class FlushedFiles(PowerLoss):
    """A broker's files, which can be reverted to what it has flushed."""

    scene: Scene

    def await_flush_known(self) -> None:
        """Wait for two whole rounds of the broker's checkpoints: the second began after now."""
        for broker in self.scene.transport.brokers:
            seen = {broker.checkpoint()}

            def twice(broker: Broker = broker, seen: set[tuple[int, int]] = seen) -> bool:
                seen.add(broker.checkpoint())
                return len(seen) > 2  # noqa: PLR2004 - the one there was, and two written since

            wait_until(twice, within_s=WITHIN_S, because=f"{broker.name} to write its recovery points twice")

    def forget_unflushed(self, *, internal_topics: bool) -> None:
        """Revert the cell's topics to their flushed state, while the broker is down."""
        topics, history = self.scene.topics, self.scene.history
        names = (*topics, *(INTERNAL_TOPICS if internal_topics else ()))
        dead = [broker for broker in self.scene.transport.brokers if broker.process().exit is not None]
        points: dict[str, int] = {}
        for broker in dead:
            for folder, offset in broker.flushed(topics[:1]).items():
                points[folder] = min(points.get(folder, offset), offset)
        for folder, offset in points.items():
            history.write(kinds.FLUSHED, partition=int(folder.rsplit("-", 1)[1]), offset=offset)
        for broker in dead:
            for folder, (before, after) in broker.forget_unflushed(names).items():
                say_forgot(self.scene, node=broker.name, file=folder, bytes_before=before, bytes_after=after)


def say_forgot(scene: Scene, **fields: Any) -> None:
    """Write that something which was stored is gone."""
    scene.history.write(kinds.FAULT, phase="forgot", fault=scene.cell.scenario.fault.id, **fields)


@dataclass
class GroupPositions(SavedPositions):
    """What a group has saved with its coordinator."""

    scene: Scene

    def forget(self) -> None:
        """Put the dead members out, delete the group, and say what it had saved.

        Raises:
            RuntimeError: the group still has something saved.
        """
        observer, group = self.scene.observer, self.scene.group
        had = self.scene.group_positions()
        if self.scene.settings.consumer.protocol is GroupProtocol.CLASSIC:
            observer.expel(group)
        # of the new protocol nobody but the coordinator puts a member out, when its session is over
        wait_until(lambda: not self.scene.members(), within_s=EXPULSION_S, because="the group to be empty", poll_s=0.1)
        observer.forget((), [group])
        if left := self.scene.group_positions():
            raise RuntimeError(f"the group {group} was deleted, and has saved {left}")
        say_forgot(self.scene, group=group, positions={str(partition): offset for partition, offset in had.items()})

    def await_reading(self, node: Target, *, anew: bool = False) -> None:
        """Wait for the first Fetch request of its present incarnation, or for two more than there are."""
        stage = stage_of(node, "reads nothing")
        client = stage.stage.client_id
        fetches = asked(self.scene.so_far, Api.FETCH, lambda e: is_prefix(client, e["client"]))
        want = len(fetches()) + 2 if anew else 1
        wait_until(lambda: stage.ended() is not None or len(fetches()) >= want, within_s=WITHIN_S, poll_s=0.1,
                   because=f"{stage.name} to ask for records")  # fmt: skip


@dataclass
class GroupMembership(Membership):
    """The members of a cell's one group."""

    scene: Scene
    reading: Reading
    _put_out_ns: int = 0
    """When the group was seen to have put a member out: it is answered that it is none, whenever it asks."""

    def await_expired(self, role: Role) -> None:
        """Wait until the group has one member less than the cell has processes of this role."""
        want = sum(node.role is role for node in self.reading.nodes) - 1
        wait_until(lambda: len(self.scene.members()) <= want, within_s=EXPULSION_S, poll_s=0.1,
                   because=f"the group to put out a paused {role}")  # fmt: skip
        self._put_out_ns = time.monotonic_ns()

    def await_put_out(self, node: Target) -> None:
        """Wait until its coordinator has answered it, once more since the group put it out."""
        client, since = stage_of(node, "is a member of no group").stage.client_id, self._put_out_ns
        told = {api.label for api in (Api.HEARTBEAT, Api.JOIN_GROUP, Api.CONSUMER_GROUP_HEARTBEAT)}
        answered = self.scene.so_far.finder(
            kinds.FRAME,
            lambda e: e["dir"] == Direction.RESPONSE and e["api"] in told and e["t"] > since and is_prefix(client, e["client"]),
        )
        wait_until(answered, within_s=WITHIN_S, because=f"{node.name} to be told that it is out of its group", poll_s=0.05)


@dataclass
class GroupRebalance(Rebalance):
    """How that group shares its work."""

    scene: Scene
    reading: Reading

    def join(self, role: Role) -> None:
        """Start one more process of a role, and wait until it is a member."""
        node = self.reading.newcomer(role)
        node.start()
        joined = lambda: node.stage.client_id in self.scene.members().values()  # noqa: E731
        wait_until(joined, within_s=JOIN_S, poll_s=0.05, because=f"{node.name} to ask for a place in the group")

    def await_asked(self, role: Role, sleeper: Target) -> None:
        """Wait for an OffsetFetch request of another, since the sleeper was stopped."""
        so_far, key = self.scene.so_far, self.scene.cell.key
        since = max(e["t"] for e in so_far.of(kinds.NODE) if e["phase"] == "paused" and e["node"] == sleeper.name)
        others = [f"{key}.{node.name}" for node in self.reading.nodes if node.role is role and node.name != sleeper.name]

        def wanted(e: Event) -> bool:
            return e["t"] > since and any(is_prefix(other, e["client"]) for other in others)

        found = asked(so_far, Api.OFFSET_FETCH, wanted)
        wait_until(found, within_s=WITHIN_S, because=f"another {role} to ask for the positions of what it took over", poll_s=0.1)


@dataclass
class ReaderClock(SessionClock):
    """The session of its readers, by their own clocks."""

    scene: Scene

    def outlast(self) -> None:
        """Wait until a consumer that began to count now is at its end; clients look once a second."""
        session_s = self.scene.settings.consumer.session_ms / 1000
        over = time.monotonic() + session_s + LOOK_S
        wait_until(lambda: time.monotonic() >= over, within_s=session_s + WITHIN_S, because="a session to be over", poll_s=0.05)


@dataclass
class Coordinator(Transactions):
    """Who ends the transactions that nobody ends."""

    scene: Scene

    def await_aborted(self, node: Target) -> None:
        """Ask it; the transaction was open when its process was stopped."""
        name = stage_of(node, "has no transaction").stage.transactional_id
        wait_until(lambda: self.scene.observer.transaction(name) == "CompleteAbort", within_s=WITHIN_S, poll_s=0.05,
                   because=f"the coordinator to abort what the {node.name} has left open")  # fmt: skip


@dataclass
class Supervisor(Supervision):
    """Who starts again what has ended by an error."""

    watching: Watching

    def supervise(self, node: Target) -> None:
        """Start it again where it ended by an error."""
        stage, watching = stage_of(node, "has no supervisor"), self.watching
        wait_until(lambda: stage.ended() or (watching.exhausted() and watching.settled()), within_s=WITHIN_S, poll_s=0.05,
                   because=f"{stage.name} to end, or to go on")  # fmt: skip
        end = stage.ended()
        if end is not None and end.status != 0:
            stage.supervised = True
            stage.restart()


@dataclass
class NextProducer(Succession):
    """Another producer in the place of the first; groups share the work among the processes they have."""

    scene: Scene
    producing: Producing

    def stand_in(self, role: Role) -> None:
        """Start it."""
        if role is not Role.PRODUCER:
            raise TypeError(f"nobody stands in for a {role}")
        self.producing.succeed(next_producer(self.scene, self.producing.node))
        self.producing.node.restart()

    def await_zombie(self, node: Target) -> None:
        """Wait until the first has ended: it was fenced, or has sent everything."""
        stage = stage_of(node, "was not replaced")
        wait_until(stage.ended, within_s=WITHIN_S, because=f"the replaced {stage.name} to end", poll_s=0.05)


@dataclass
class Proxies(BadNetwork):
    """Toxiproxy on the way of the cell's clients."""

    place: PlaceOnWire

    def worsen(self, roles: Iterable[Role], toxics: Iterable[Toxic]) -> None:
        """Put toxics on the cell's proxies, and count from there on."""
        for role in roles:
            self.place.network.worsen(role, toxics)

    def mend(self, roles: Iterable[Role], toxics: Iterable[Toxic]) -> None:
        """Take them off, and write down what passed meanwhile."""
        for role in roles:
            self.place.network.mend(role, toxics)

    def await_traffic(self, role: Role, enough: Callable[[Traffic], bool], because: str) -> None:
        """Ask the wire until it is ``enough``."""
        wait_until(lambda: enough(self.place.network.traffic(role)), within_s=WITHIN_S, because=because, poll_s=0.05)


@dataclass
class Ledgers(Ledger):
    """What our programs write down."""

    scene: Scene

    def await_told_unknown(self) -> None:
        """Wait until the producer's ledger says that the fate of the target is not known."""
        told = self.scene.so_far.finder(kinds.UNKNOWN, lambda e: e["record"] == self.scene.load.target.id)
        wait_until(told, within_s=WITHIN_S, because="the program to be told that the target's fate is unknown", poll_s=0.05)


@dataclass
class SourceTopic(Partitions):
    """The source, which can grow."""

    scene: Scene
    _grows_ns: int = field(default=0, init=False)
    """When it was told to grow: a member may learn of that before the observer does."""

    def add(self) -> None:
        """Give it more partitions; a key's partition is murmur2 of it, for every client here."""
        scene = self.scene
        before = scene.settings.topic.partitions + scene.added
        later = [record.key for record in scene.load.records[scene.load.target.position :]]
        after = sized(scene.load.target.key, later, before)
        self._grows_ns = time.monotonic_ns()
        scene.observer.grow(scene.source, after)
        scene.added += after - before
        for partition in range(before, after):
            scene.history.write(kinds.ADDED, topic=scene.source, partition=partition, before=before)

    def await_known(self, node: Target) -> None:
        """Wait until its client has asked twice since the topic grew, and so has been answered once."""
        so_far, client = self.scene.so_far, stage_of(node, "asks for no metadata").stage.client_id
        since = max(e["t"] for e in so_far.of(kinds.ADDED))
        found = asked(so_far, Api.METADATA, lambda e: e["t"] > since and is_prefix(client, e["client"]))
        wait_until(lambda: len(found()) > 1, within_s=WITHIN_S, because=f"{node.name} to learn of new partitions", poll_s=0.05)

    def await_shared_out(self) -> None:
        """Wait until the members of the group, as they say, have been given all the partitions that were added."""
        so_far = self.scene.so_far
        added = {e["partition"] for e in so_far.of(kinds.ADDED)}

        def given() -> bool:
            late = (e for e in so_far.of(kinds.READY) if e["t"] > self._grows_ns)
            last = {e["by"]: set(e.get("partitions") or ()) for e in late}
            return added <= set().union(*last.values())

        wait_until(given, within_s=WITHIN_S, because="the group to share out the partitions that were added", poll_s=0.05)


def sized(target: str, later: Sequence[str], before: int) -> int:
    """Return how many partitions a topic of ``before`` gets: the least number at which a key moves to one that is new.

    Where it can be, with up to ten times as many, some later key stays in an old one.
    """
    moves = [size for size in range(before + 1, 100 * before + 2) if partition_of(target, size) >= before]
    both = (size for size in moves if size <= 10 * before and any(partition_of(key, size) < before for key in later))
    return next(both, moves[0])


def partition_of(key: str, partitions: int) -> int:
    """Return where every client here puts a key."""
    return int(murmur2(key.encode()) & 0x7FFFFFFF) % partitions
