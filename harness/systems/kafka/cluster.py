"""A cell on a cluster of brokers: it asks who leads when a fault fires, and waits in the drain
until replicas are in sync.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from kafka.errors import KafkaError

from harness.abilities import Leadership as LeadershipAbility
from harness.abilities import Replication, RestartInTurn
from harness.model import events as kinds
from harness.model.record import decode_id
from harness.model.scenario import Role
from harness.model.waiting import wait_until
from harness.proofs.leadership import TRANSACTION_LOG
from harness.protocols.kafka.batches import read_batches
from harness.protocols.kafka.steps import Api
from harness.run.nodes import ServerNode
from harness.run.parts import FeedAfter
from harness.systems.kafka.broker import INTER_BROKER, INTERNAL_TOPICS, Broker, leadership, name_of
from harness.wire.rules import Action, Direction, Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from harness.controls import Target
    from harness.model.history import HistoryWriter
    from harness.run.controls import WireControls
    from harness.run.parts import Feed
    from harness.run.who import LastHit
    from harness.runtimes.interface import Exit
    from harness.systems.kafka.log_copies import Leadership
    from harness.systems.kafka.scene import Scene
    from harness.systems.kafka.transport import KafkaTransport

T = TypeVar("T")

OF_A_CLUSTER = (Role.LEADER, Role.FOLLOWER, Role.CONTROLLER, Role.COORDINATOR)
SYNC_S = 60.0
ORDERLY_S = 30.0
"""How long (seconds) a broker may take to shut down; Kafka itself tries three times for 5 s to hand
over its leaderships.
"""


class ClusterBrokers:
    """Prepares and observes the cluster for one cell. It is opened first and closed last of the
    cell's parts.
    """

    def __init__(self, scene: Scene, last_hit: LastHit) -> None:
        scene.placement = self._place
        self._scene = scene
        self._parts = BrokerParts(scene, last_hit)

    def open(self) -> None:
        """Wait until all replicas of Kafka's internal topics are in sync and the first broker leads
        them.
        """
        await_in_sync(self._scene.transport, INTERNAL_TOPICS)
        self._await_home()

    def close(self) -> None:
        """Restart the servers that a fault left dead."""
        for server in self._scene.transport.servers:
            if server.process().exit is not None:
                server.start()

    def place_topics(self) -> None:
        """Create the cell's probe topic, and wait until all replicas of the cell's topics are in
        sync.
        """
        scene = self._scene
        topic = scene.settings.topic
        config = {"min.insync.replicas": str(topic.min_insync)}
        scene.observer.create_topics(
            {probe_of(scene.cell.key): (topic.partitions, config)}, scene.placement
        )
        await_in_sync(scene.transport, scene.topics)

    def leave(self) -> None:
        """Do nothing: cells on a cluster share no crash."""

    def feed(self, producing: Feed) -> Feed:
        """Return a feed that first waits until the first broker, which leads no data, leads Kafka's
        internal topics.
        """
        return FeedAfter(self._await_home, producing)

    def servers(self) -> Mapping[Role, Callable[[], Target]]:
        """Return, by role, a function that asks the cluster for the broker of that role now."""
        return {role: partial(self._parts.target, role) for role in OF_A_CLUSTER}

    def asker(self, hit: kinds.Rule) -> str:
        """Return the broker that sent a request to another broker: ``broker-2`` for the client
        ``broker-2-fetcher-0``.
        """
        return "-".join(str(hit.client).split("-")[:2])

    def abilities(self) -> Mapping[type, Callable[[WireControls], object]]:
        """Return what makes the abilities that only a cluster has, of the cell's controls."""
        return {
            Replication: partial(Followers, self._parts),
            LeadershipAbility: lambda _: self._parts,
            RestartInTurn: lambda _: self._parts,
        }

    def log_trouble(self) -> str | None:
        """Say which partition has an open transaction, a replica out of sync, or invisible records;
        ``None`` if none has.
        """
        scene = self._scene
        return scene.log_trouble() or out_of_sync(scene.transport, scene.topics) or self._unseen()

    def observe(self) -> None:
        """Write who leads at the end, and what the log files of each replica hold."""
        say_leaderships(self._scene.transport, self._scene.history, self._scene.topics)
        for topic in self._scene.topics:
            for broker in self._scene.transport.brokers:
                self._observe_replica(broker, topic)

    def _unseen(self) -> str | None:
        """Say which leader has records above its high watermark. With acks=1 they are acknowledged
        before followers have them.
        """
        transport = self._scene.transport
        for topic in self._scene.topics:
            ends = transport.observer.ends(topic)
            for partition, now in leaderships(transport, topic).items():
                leader = next(
                    (broker for broker in transport.brokers if broker.number == now.leader), None
                )
                end = ends[partition].end if partition in ends else -1
                if leader is None or last_offset(leader, topic, partition) >= end:
                    return (
                        f"{topic}/{partition}: the leader has records above the high watermark "
                        f"{end}"
                    )
        return None

    def _observe_replica(self, broker: Broker, topic: str) -> None:
        """Write what the log files of one broker hold, without a batch that is still
        being written.
        """
        for partition, data in broker.log_of(topic):
            for batch in read_batches(data):
                for item in batch.items:
                    self._scene.history.write(
                        kinds.Replica(
                            node=broker.name,
                            topic=topic,
                            partition=partition,
                            offset=item.offset,
                            epoch=batch.epoch,
                            record=decode_id(item.value),
                        )
                    )

    def _await_home(self) -> None:
        wait_until(
            self._home,
            within_s=SYNC_S,
            because="the first broker to lead Kafka's internal topics",
            poll_s=0.1,
        )

    def _home(self) -> bool:
        """Whether the first broker leads Kafka's internal topics; if not, request that it does."""
        transport = self._scene.transport
        if all(
            now.leader == 1
            for topic in INTERNAL_TOPICS
            for now in leaderships(transport, topic).values()
        ):
            return True
        answered(lambda: transport.observer.prefer_leaders(INTERNAL_TOPICS))
        return False

    def _place(self, partition: int) -> list[int]:
        """Return the brokers of a partition, the preferred leader first. Leaders alternate; the
        coordinator never leads.
        """
        cell = self._scene.cell
        others = [broker.number for broker in self._scene.transport.brokers[1:]]
        first = others[(cell.seed + partition) % len(others)]
        rest = [number for number in (*others, 1) if number != first]
        return [first, *rest][: self._scene.settings.topic.replicas]


@dataclass
class BrokerParts(LeadershipAbility, RestartInTurn):
    """Finds brokers by their role for the target (leader, follower, coordinator), and does what an
    administrator would.
    """

    scene: Scene
    last_hit: LastHit
    stalled: bool = field(default=False, init=False)
    """Whether the followers get nothing more."""
    _turns: list[int] = field(default_factory=list, init=False)
    """The numbers of the brokers that are still to be restarted."""

    def target(self, role: Role) -> ServerNode:
        """Ask the cluster for the broker of a role, write that down, and return the broker."""
        if self.stalled:
            self._say_alone()
        return self._node(self._number(role), role)

    def move(self) -> None:
        """Make the next replica of the target's partition the leader."""
        before = self._say_leaders()
        moving = self.partitions(before)
        self._prefer({part: before[part] for part in moving})
        self._elect(moving)

    def prefer_another(self) -> None:
        """Change the order of each partition's replicas, so that another one is the preferred
        leader.
        """
        self._prefer(self._say_leaders())
        self._say_leaders()

    def elect_preferred(self) -> None:
        """Elect the preferred leaders of the topic, and wait for that of the target's partition."""
        self._elect(self.partitions(self._say_leaders()))

    def next_broker(self) -> ServerNode:
        """Return the next broker of a rolling restart. The leader of the target's partition comes
        first.
        """
        if not self._turns:
            first = self._number(Role.LEADER)
            self._turns = [
                first,
                *(n for n in range(len(self.scene.transport.brokers), 0, -1) if n != first),
            ]
        return self._node(self._turns.pop(0), Role.BROKER)

    def _prefer(self, leaders: Mapping[int, Leadership]) -> None:
        """Move each first replica to the end of the list, and wait until the cluster reports the
        new order.
        """
        observer, topic = self.scene.transport.observer, self.scene.source
        order = {part: (*now.replicas[1:], now.replicas[0]) for part, now in leaders.items()}
        observer.reorder_replicas(topic, order)

        def ordered() -> bool:
            now = leaderships(self.scene.transport, topic)
            return all(now[part].replicas == order[part] for part in order)

        wait_until(ordered, within_s=SYNC_S, because="another replica to be preferred", poll_s=0.05)

    def _elect(self, partitions: Iterable[int]) -> None:
        observer, topic = self.scene.transport.observer, self.scene.source

        def moved() -> bool:
            answered(lambda: observer.prefer_leaders((topic,)))
            now = leaderships(self.scene.transport, topic)
            return all(now[part].leader == now[part].replicas[0] for part in partitions)

        wait_until(moved, within_s=SYNC_S, because="another replica to lead", poll_s=0.05)
        # another broker's report does not show that the new leader leads; its answer about the end
        # of its log does
        if not self.stalled:  # with stalled followers the new leader would not answer
            observer.close()
            answered(lambda: observer.ends(topic))
        self._say_leaders()

    def _say_leaders(self) -> dict[int, Leadership]:
        """Write down who leads the topic's partitions and who coordinates transactions; return the
        leaders by partition.
        """
        topic = self.scene.source
        said = say_leaderships(
            self.scene.transport, self.scene.history, (topic, TRANSACTION_LOG[0])
        )
        return {part: now for (name, part), now in said.items() if name == topic}

    def _number(self, role: Role) -> int:
        """Return the number of the broker that has this role for the target's partition."""
        known = self._say_leaders()
        if role is Role.COORDINATOR:
            topic, partition = TRANSACTION_LOG
            return leaderships(self.scene.transport, topic)[partition].leader
        if role is Role.CONTROLLER:
            return answered(self.scene.transport.observer.controller)
        now = known[self.partitions(known)[0]]
        if role is Role.FOLLOWER:
            return next(number for number in now.replicas if number != now.leader)
        return now.leader

    def partitions(self, leaderships: Mapping[int, Leadership]) -> list[int]:
        """Return the target's partition; while its request is held, the partitions that the
        addressed broker leads.
        """
        for sent in self.scene.so_far.of(kinds.Sent, kinds.Unsent):
            if sent.record == self.scene.load.target.id and sent.partition is not None:
                return [sent.partition]
        if (hit := self.last_hit.event) is None:
            raise RuntimeError("no rule was hit, so the target's partition is unknown")
        leads = [part for part, now in leaderships.items() if name_of(now.leader) == hit.node]
        if not leads:
            raise RuntimeError(f"the target goes to {hit.node}, which leads no partition")
        return leads

    def _say_alone(self) -> None:
        """Write down the records that only the leader has."""
        copied = {e.record for e in self.scene.so_far.of(kinds.Replicated) if e.reached}
        for record in sorted({e.record for e in self.scene.so_far.of(kinds.Sent)} - copied):
            self.scene.history.write(kinds.Alone(record=record))

    def _say_ungoverned(self, controller: Broker) -> None:
        """Write down the records that were acknowledged after the only controller died."""
        end = controller.process().exit
        for answer in self.scene.so_far.of(kinds.ProduceAnswer):
            if end is not None and answer.t > end.at_ns and answer.reached and not answer.error:
                self.scene.history.write(kinds.Ungoverned(record=answer.record))

    def _node(self, number: int, role: Role) -> ServerNode:
        broker = self.scene.transport.servers[number - 1]
        return ServerNode(
            self.scene.history,
            broker.process,
            lambda: self._kill(broker),
            lambda: self._restart(broker),
            broker.name,
            role,
            end_it=lambda: self._end(broker),
        )

    def _kill(self, broker: Broker) -> Exit:
        """Kill the broker with SIGKILL. The wire then refuses connections, as the port of a dead
        broker does.
        """
        end = broker.process().kill()
        self.scene.transport.observer.close()
        return end

    def _end(self, broker: Broker) -> Exit:
        """Shut the broker down with SIGTERM: it hands over its leaderships and closes its logs."""
        end = broker.process().terminate(ORDERLY_S)
        self.scene.transport.observer.close()
        return end

    def _restart(self, broker: Broker) -> None:
        """Restart the broker on the same data. Wait until all replicas are in sync; while others
        are dead, until it listens.
        """
        if broker.controls:
            self._say_ungoverned(broker)
        broker.start()
        if any(other.process().exit is not None for other in self.scene.transport.servers):
            return
        if broker.controls:
            wait_until(
                lambda: answered(self.scene.transport.observer.controller) == broker.number,
                within_s=SYNC_S,
                poll_s=0.05,
                because=f"{broker.name} to lead the quorum again",
            )
        await_in_sync(self.scene.transport, (*self.scene.topics, *INTERNAL_TOPICS))


@dataclass
class Followers(Replication):
    """Keeps a cell's followers from copying, and watches which of them are in sync."""

    parts: BrokerParts
    controls: WireControls

    def stall(self) -> None:
        """From the target on, hold every response to a follower's fetch."""
        rule = Rule(
            "copies",
            Action.HOLD,
            api=Api.FETCH,
            direction=Direction.RESPONSE,
            role=INTER_BROKER,
            record=self.parts.scene.load.target.id,
            limit=None,
        )
        self.controls.put_beside(rule)
        self.parts.stalled = True

    def await_shrunk(self) -> None:
        """Wait until the leader of the target's partition knows that too few replicas are in sync.

        The controller may know it earlier than the leader. Only a refused write shows what the
        leader knows, so a record is sent to the cell's probe topic, which has the same replicas and
        leaders.
        """
        scene, parts = self.parts.scene, self.parts

        def shrunk() -> bool:
            now = leaderships(scene.transport, scene.source)
            return all(len(now[p].isr) < len(now[p].replicas) for p in parts.partitions(now))

        wait_until(
            shrunk,
            within_s=SYNC_S,
            because="a dead follower to leave the in-sync replicas",
            poll_s=0.05,
        )
        observer, probe = scene.transport.observer, probe_of(scene.cell.key)
        partitions = parts.partitions(leaderships(scene.transport, scene.source))
        # a leader goes through its partitions one after the other, so all of them are asked
        wait_until(
            lambda: all(answered(partial(observer.refuses, probe, part)) for part in partitions),
            within_s=SYNC_S,
            because="the leader to refuse a record",
            poll_s=0.05,
        )
        say_leaderships(scene.transport, scene.history, scene.topics[:1])


def last_offset(broker: Broker, topic: str, partition: int) -> int:
    """Return the last offset in a broker's own log files of a partition; -1 if there is none."""
    logs = (read_batches(data) for number, data in broker.log_of(topic) if number == partition)
    return max((batch.last_offset for batches in logs for batch in batches), default=-1)


def probe_of(key: str) -> str:
    """Return the name of the cell's probe topic, which has the same replicas as the
    cell's topics.
    """
    return f"{key}.probe"


def answered(question: Callable[[], T]) -> T:
    """Repeat a question until a broker of the cluster answers: the first one asked may
    have died.
    """
    found: list[T] = []

    def got() -> bool:
        try:
            found.append(question())
        except KafkaError:
            return False
        return True

    wait_until(got, within_s=SYNC_S, because="a broker of the cluster to answer", poll_s=0.05)
    return found[0]


def leaderships(transport: KafkaTransport, topic: str) -> dict[int, Leadership]:
    """Return the leader and the replicas of each partition of a topic."""
    return answered(lambda: transport.observer.leaderships(topic))


def out_of_sync(transport: KafkaTransport, topics: Iterable[str]) -> str | None:
    """Say which partition has a replica out of sync, or no leader; ``None`` if none has."""
    for topic in topics:
        for partition, now in leaderships(transport, topic).items():
            if now.leader < 0 or len(now.isr) < len(now.replicas):
                missing = sorted(set(now.replicas) - set(now.isr))
                return (
                    f"{topic}/{partition}: broker {', '.join(map(str, missing))} not in sync, "
                    f"leader {now.leader}"
                )
    return None


def await_in_sync(transport: KafkaTransport, topics: Iterable[str]) -> None:
    """Wait until every replica of these topics is in sync."""
    topics = tuple(topics)
    wait_until(
        lambda: out_of_sync(transport, topics) is None,
        within_s=SYNC_S,
        because="all replicas to be in sync",
        poll_s=0.05,
    )


def say_leaderships(
    transport: KafkaTransport, history: HistoryWriter, topics: Iterable[str]
) -> dict[tuple[str, int], Leadership]:
    """Write down who leads these topics and the controller quorum; return the leaders by topic and
    partition.
    """
    found = {}
    controller = name_of(answered(transport.observer.controller), transport.size)
    for topic in topics:
        for partition, now in leaderships(transport, topic).items():
            history.write(leadership(topic, partition, now, controller))
            found[topic, partition] = now
    return found
