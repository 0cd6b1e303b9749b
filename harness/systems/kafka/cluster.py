"""A cell on a cluster: who leads is asked when a fault fires, and every replica is in sync before a drain is over."""

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
from harness.systems.kafka.broker import INTER_BROKER, INTERNAL_TOPICS, Broker, name_of
from harness.wire.rules import Action, Direction, Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from harness.controls import Target
    from harness.model.history import Event, HistoryWriter
    from harness.run.controls import WireControls
    from harness.run.parts import Feed
    from harness.run.who import CellNodes
    from harness.runtimes.interface import Exit
    from harness.systems.kafka.observer import Leadership
    from harness.systems.kafka.scene import Scene
    from harness.systems.kafka.transport import KafkaTransport

T = TypeVar("T")

OF_A_CLUSTER = (Role.LEADER, Role.FOLLOWER, Role.CONTROLLER, Role.COORDINATOR)
SYNC_S = 60.0
ORDERLY_S = 30.0
"""How long a broker may take to end in order; Kafka itself gives it 5 s to hand over, three times."""


class ClusterBrokers:
    """What a cell has to do with its brokers. A part of its ground: the first to be opened, and the last to be closed."""

    def __init__(self, scene: Scene) -> None:
        scene.placement = self._place
        self._scene = scene
        self._parts: BrokerParts | None = None

    def open(self) -> None:
        """Wait for what the cell before has left behind, and for the first broker to lead Kafka's own topics again."""
        await_in_sync(self._scene.transport, INTERNAL_TOPICS)
        self._await_home()

    def close(self) -> None:
        """Start again what a fault has left dead."""
        for server in self._scene.transport.servers:
            if server.process().exit is not None:
                server.start()

    def place_topics(self) -> None:
        """Make the topic on which leaders are asked, and wait until all that there is has its replicas."""
        scene = self._scene
        topic = scene.settings.topic
        config = {"min.insync.replicas": str(topic.min_insync)}
        scene.observer.create_topics({probe_of(scene.cell.key): (topic.partitions, config)}, scene.placement)
        await_in_sync(scene.transport, scene.topics)

    def leave(self) -> None:
        """Do nothing: nobody shares the death of a cluster's broker."""

    def feed(self, producing: Feed) -> Feed:
        """Return what waits until the first broker leads Kafka's own topics: who coordinates must not lead data."""
        return FromHome(self._await_home, producing)

    def servers(self) -> Mapping[Role, Callable[[], Target]]:
        """Return the broker of each role; which that is, is asked when it is called."""
        return {role: partial(self._target, role) for role in OF_A_CLUSTER}

    def asker(self, hit: Event) -> str:
        """Return the broker that asks another: ``broker-2`` of ``broker-2-fetcher-0``."""
        return "-".join(hit["client"].split("-")[:2])

    def abilities(self, controls: WireControls, nodes: CellNodes) -> Mapping[type, object]:
        """Return what only a cluster can."""
        self._parts = BrokerParts(self._scene, controls, nodes)
        return {Replication: self._parts, LeadershipAbility: self._parts, RestartInTurn: self._parts}

    def log_trouble(self) -> str | None:
        """Return which partition has an open transaction, a replica not in sync, or records that are not visible, or ``None``."""
        scene = self._scene
        return scene.log_trouble() or out_of_sync(scene.transport, scene.topics) or self._unseen()

    def observe(self) -> None:
        """Write who leads at the end, and what each replica has in its files."""
        say_leaderships(self._scene.transport, self._scene.history, self._scene.topics)
        for topic in self._scene.topics:
            for broker in self._scene.transport.brokers:
                self._observe_replica(broker, topic)

    def _target(self, role: Role) -> ServerNode:
        if self._parts is None:
            raise RuntimeError("the controls come first")
        return self._parts.target(role)

    def _unseen(self) -> str | None:
        """Which leader has records above its high watermark: with one ack they are acknowledged before others have them."""
        transport = self._scene.transport
        for topic in self._scene.topics:
            ends = transport.observer.ends(topic)
            for partition, now in leaderships(transport, topic).items():
                leader = next((broker for broker in transport.brokers if broker.number == now.leader), None)
                end = ends[partition].end if partition in ends else -1
                if leader is None or last_offset(leader, topic, partition) >= end:
                    return f"{topic}/{partition}: the leader has more than the high watermark says: {end}"
        return None

    def _observe_replica(self, broker: Broker, topic: str) -> None:
        """Write down what the log files of one broker hold; a batch that is still being written is left out."""
        for partition, data in broker.log_of(topic):
            for batch in read_batches(data):
                for item in batch.items:
                    self._scene.history.write(
                        kinds.REPLICA, node=broker.name, topic=topic, partition=partition, offset=item.offset,
                        epoch=batch.epoch, record=decode_id(item.value),
                    )  # fmt: skip

    def _await_home(self) -> None:
        wait_until(self._home, within_s=SYNC_S, because="the first broker to lead Kafka's own topics", poll_s=0.1)

    def _home(self) -> bool:
        """Whether the first broker leads Kafka's own topics; it is asked to, where it does not."""
        transport = self._scene.transport
        if all(now.leader == 1 for topic in INTERNAL_TOPICS for now in leaderships(transport, topic).values()):
            return True
        answered(lambda: transport.observer.prefer_leaders(INTERNAL_TOPICS))
        return False

    def _place(self, partition: int) -> list[int]:
        """The brokers of a partition, its preferred leader first: in turn, but never the one that coordinates."""
        cell = self._scene.cell
        others = [broker.number for broker in self._scene.transport.brokers[1:]]
        first = others[(cell.seed + partition) % len(others)]
        rest = [number for number in (*others, 1) if number != first]
        return [first, *rest][: self._scene.settings.topic.replicas]


@dataclass(frozen=True)
class FromHome:
    """A feed that starts when nothing has moved since the ground was prepared. Implements :class:`harness.run.parts.Feed`."""

    await_home: Callable[[], None]
    feed: Feed

    def start(self) -> None:
        """Wait for that, and start."""
        self.await_home()
        self.feed.start()

    def await_filled(self) -> None:
        """Wait as the feed does."""
        self.feed.await_filled()


@dataclass
class BrokerParts(Replication, LeadershipAbility, RestartInTurn):
    """The parts that brokers play for the target, and what an administrator does to them."""

    scene: Scene
    controls: WireControls
    nodes: CellNodes
    _stalled: bool = field(default=False, init=False)
    _turns: list[int] = field(default_factory=list, init=False)
    """The brokers that are still to be restarted, by number."""

    def target(self, role: Role) -> ServerNode:
        """Return the broker of a role; which that is, is asked now, and written down."""
        if self._stalled:
            self._say_alone()
        return self._node(self._number(role), role)

    def stall(self) -> None:
        """From the target on, hold what any follower fetches."""
        rule = Rule("copies", Action.HOLD, api=Api.FETCH, direction=Direction.RESPONSE, role=INTER_BROKER,
                    record=self.scene.load.target.id, limit=None)  # fmt: skip
        self.controls.put_beside(rule)
        self._stalled = True

    def await_shrunk(self) -> None:
        """Wait until the leader of the target's partition knows that too few are in sync.

        The controller's word is not the leader's: only a refusal shows what the leader knows. It is asked on a topic beside
        the cell's, with the same replicas, whose leaders learn of a dead follower at the same time.
        """

        def shrunk() -> bool:
            now = leaderships(self.scene.transport, self.scene.source)
            return all(len(now[p].isr) < len(now[p].replicas) for p in self._partitions(now))

        wait_until(shrunk, within_s=SYNC_S, because="a dead follower to be out of the set in sync", poll_s=0.05)
        observer, probe = self.scene.transport.observer, probe_of(self.scene.cell.key)
        partitions = self._partitions(leaderships(self.scene.transport, self.scene.source))
        # a leader goes through its partitions one after the other, so all of them are asked
        wait_until(lambda: all(answered(partial(observer.refuses, probe, part)) for part in partitions),
                   within_s=SYNC_S, because="the leader to refuse a record", poll_s=0.05)  # fmt: skip
        say_leaderships(self.scene.transport, self.scene.history, self.scene.topics[:1])

    def move(self) -> None:
        """Let the next replica lead."""
        before = self._say_leaders()
        moving = self._partitions(before)
        self._prefer({part: before[part] for part in moving})
        self._elect(moving)

    def prefer_another(self) -> None:
        """Put the replicas of every partition in another order."""
        self._prefer(self._say_leaders())
        self._say_leaders()

    def elect_preferred(self) -> None:
        """Elect the preferred leaders of the topic."""
        self._elect(self._partitions(self._say_leaders()))

    def next_broker(self) -> ServerNode:
        """Return the broker whose turn it is, as an operator goes through them."""
        if not self._turns:
            first = self._number(Role.LEADER)
            self._turns = [first, *(n for n in range(len(self.scene.transport.brokers), 0, -1) if n != first)]
        return self._node(self._turns.pop(0), Role.BROKER)

    def _prefer(self, leaders: Mapping[int, Leadership]) -> None:
        """Make the second of the replicas the first, and wait until the cluster says so."""
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
        # one broker's word is not the new leader's: only it tells where its log ends, and fetches from nobody then
        if not self._stalled:  # it would wait for followers that get nothing, and gets nothing itself
            observer.close()
            answered(lambda: observer.ends(topic))
        self._say_leaders()

    def _say_leaders(self) -> dict[int, Leadership]:
        """Who leads the partitions of the topic, and who coordinates transactions, written down."""
        topic = self.scene.source
        said = say_leaderships(self.scene.transport, self.scene.history, (topic, TRANSACTION_LOG[0]))
        return {part: now for (name, part), now in said.items() if name == topic}

    def _number(self, role: Role) -> int:
        """The number of the broker that has this role for the target's partition."""
        known = self._say_leaders()
        if role is Role.COORDINATOR:
            topic, partition = TRANSACTION_LOG
            return leaderships(self.scene.transport, topic)[partition].leader
        if role is Role.CONTROLLER:
            return answered(self.scene.transport.observer.controller)
        now = known[self._partitions(known)[0]]
        if role is Role.FOLLOWER:
            return next(number for number in now.replicas if number != now.leader)
        return now.leader

    def _partitions(self, leaderships: Mapping[int, Leadership]) -> list[int]:
        """The partition of the target; while its request is held, those that the broker it goes to leads."""
        for sent in self.scene.so_far.of(kinds.SENT, kinds.UNSENT):
            if sent["record"] == self.scene.load.target.id:
                return [int(sent["partition"])]
        if self.nodes.last_hit is None:
            raise RuntimeError("nothing was hit: nobody knows where the target goes")
        leads = [part for part, now in leaderships.items() if name_of(now.leader) == self.nodes.last_hit["node"]]
        if not leads:
            raise RuntimeError(f"the target goes to {self.nodes.last_hit['node']}, which leads nothing")
        return leads

    def _say_alone(self) -> None:
        """Write down what only the leader has."""
        copied = {e["record"] for e in self.scene.so_far.of(kinds.REPLICATED) if e["reached"]}
        for record in sorted({e["record"] for e in self.scene.so_far.of(kinds.SENT)} - copied):
            self.scene.history.write(kinds.ALONE, record=record)

    def _say_ungoverned(self, controller: Broker) -> None:
        """Write down what was stored since the only controller has died."""
        end = controller.process().exit
        for answer in self.scene.so_far.of(kinds.PRODUCE_ANSWER):
            if end is not None and answer["t"] > end.at_ns and answer["reached"] and not answer["error"]:
                self.scene.history.write(kinds.UNGOVERNED, record=answer["record"])

    def _node(self, number: int, role: Role) -> ServerNode:
        broker = self.scene.transport.servers[number - 1]
        return ServerNode(self.scene.history, broker.process, lambda: self._kill(broker), lambda: self._restart(broker),
                          broker.name, role, end_it=lambda: self._end(broker))  # fmt: skip

    def _kill(self, broker: Broker) -> Exit:
        """SIGKILL it. Its routes stay: with nobody behind them the wire refuses, as a dead broker's port does."""
        end = broker.process().kill()
        self.scene.transport.observer.close()
        return end

    def _end(self, broker: Broker) -> Exit:
        """SIGTERM: it hands over what it leads, closes its logs and ends."""
        end = broker.process().terminate(ORDERLY_S)
        self.scene.transport.observer.close()
        return end

    def _restart(self, broker: Broker) -> None:
        """Start it again on the same data; it is ready when all is in sync, or, while others are dead too, when it listens."""
        if broker.controls:
            self._say_ungoverned(broker)
        broker.start()
        if any(other.process().exit is not None for other in self.scene.transport.servers):
            return
        if broker.controls:
            wait_until(lambda: answered(self.scene.transport.observer.controller) == broker.number, within_s=SYNC_S, poll_s=0.05,
                       because=f"{broker.name} to lead the quorum again")  # fmt: skip
        await_in_sync(self.scene.transport, (*self.scene.topics, *INTERNAL_TOPICS))


def last_offset(broker: Broker, topic: str, partition: int) -> int:
    """Return the last offset in a broker's own log file of a partition; -1 where there is none."""
    logs = (read_batches(data) for number, data in broker.log_of(topic) if number == partition)
    return max((batch.last_offset for batches in logs for batch in batches), default=-1)


def probe_of(key: str) -> str:
    """Return the topic beside a cell's own, placed like them, on which a leader is asked what it would do."""
    return f"{key}.probe"


def answered(question: Callable[[], T]) -> T:
    """Ask again until a broker of the cluster answers: the one that was asked first may have died."""
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
    """Return who leads and who follows each partition of a topic."""
    return answered(lambda: transport.observer.leaderships(topic))


def out_of_sync(transport: KafkaTransport, topics: Iterable[str]) -> str | None:
    """Say which partition has a replica that is not in sync, or no leader."""
    for topic in topics:
        for partition, now in leaderships(transport, topic).items():
            if now.leader < 0 or len(now.isr) < len(now.replicas):
                missing = sorted(set(now.replicas) - set(now.isr))
                return f"{topic}/{partition}: broker {', '.join(map(str, missing))} not in sync, leader {now.leader}"
    return None


def await_in_sync(transport: KafkaTransport, topics: Iterable[str]) -> None:
    """Wait until every replica of these topics is in sync."""
    topics = tuple(topics)
    wait_until(lambda: out_of_sync(transport, topics) is None, within_s=SYNC_S, because="all replicas to be in sync", poll_s=0.05)


def say_leaderships(
    transport: KafkaTransport, history: HistoryWriter, topics: Iterable[str]
) -> dict[tuple[str, int], Leadership]:
    """Ask the cluster who leads these topics and its quorum, and write it down."""
    found = {}
    controller = name_of(answered(transport.observer.controller), transport.size)
    for topic in topics:
        for partition, now in leaderships(transport, topic).items():
            history.write(
                kinds.LEADERSHIP, topic=topic, partition=partition, leader=name_of(now.leader), number=now.leader,
                epoch=now.epoch, controller=controller,
                replicas=[name_of(n) for n in now.replicas], isr=[name_of(n) for n in now.isr],
            )  # fmt: skip
            found[topic, partition] = now
    return found
