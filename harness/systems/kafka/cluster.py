"""One cell on a cluster: who leads is asked when a fault fires, and every replica is in sync before a drain is over."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from kafka.errors import KafkaError

from harness.core import events as kinds
from harness.core.record import decode_id
from harness.core.scenario import Role
from harness.core.waiting import wait_until
from harness.proofs.leadership import TRANSACTION_LOG
from harness.systems.kafka.bench import KafkaBench
from harness.systems.kafka.broker import INTER_BROKER, INTERNAL_TOPICS, Broker, name_of
from harness.systems.kafka.nodes import ServerNode
from harness.systems.kafka.run import KafkaCellRun
from harness.wire.codec import read_batches
from harness.wire.rules import Action, Api, Direction, Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from harness.bench import Target
    from harness.core.cell import Cell
    from harness.core.history import Event, HistoryWriter
    from harness.runtimes.interface import Exit
    from harness.systems.kafka.observer import Leadership
    from harness.systems.kafka.system import KafkaDeployed

T = TypeVar("T")

OF_A_CLUSTER = (Role.LEADER, Role.FOLLOWER, Role.CONTROLLER, Role.COORDINATOR)
SYNC_S = 60.0
ORDERLY_S = 30.0
"""How long a broker may take to end in order; Kafka itself gives it 5 s to hand over, three times."""


@dataclass
class ClusterBench(KafkaBench):
    """What the faults see of a cell on a cluster."""

    _stalled: bool = False
    _turns: list[int] = field(default_factory=list)
    """The brokers that are still to be restarted, by number."""

    def target(self, role: Role, node: str | None = None) -> Target:
        """Return the node of a role; which broker that is, is asked now, and written down."""
        if role not in OF_A_CLUSTER:
            return super().target(role, node)
        if self._stalled:
            self._say_alone()
        return self._node(self._number(role), role)

    def stall_replication(self) -> None:
        """From the target on, hold what any follower fetches."""
        rule = Rule("copies", Action.HOLD, api=Api.FETCH, direction=Direction.RESPONSE, role=INTER_BROKER,
                    record=self.load.target.id, limit=None)  # fmt: skip
        self.deployed.wire.arm(self.cell.id, rule)
        self._rules.insert(0, rule.id)
        self._stalled = True

    def await_shrunk(self) -> None:
        """Wait until the leader of the target's partition knows that too few are in sync.

        The controller's word is not the leader's: only a refusal shows what the leader knows. It is asked on a topic beside
        the cell's, with the same replicas, whose leaders learn of a dead follower at the same time.
        """

        def shrunk() -> bool:
            now = leaderships(self.deployed, self.topics[0])
            return all(len(now[p].isr) < len(now[p].replicas) for p in self._partitions(now))

        wait_until(shrunk, within_s=SYNC_S, because="a dead follower to be out of the set in sync", poll_s=0.05)
        observer, probe = self.deployed.observer, probe_of(self.cell.key)
        partitions = self._partitions(leaderships(self.deployed, self.topics[0]))
        # a leader goes through its partitions one after the other, so all of them are asked
        wait_until(lambda: all(answered(partial(observer.refuses, probe, part)) for part in partitions),
                   within_s=SYNC_S, because="the leader to refuse a record", poll_s=0.05)  # fmt: skip
        say_leaderships(self.deployed, self.history, self.topics[:1])

    def move_leader(self) -> None:
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
            self._turns = [first, *(n for n in range(len(self.deployed.brokers), 0, -1) if n != first)]
        return self._node(self._turns.pop(0), Role.BROKER)

    def _prefer(self, leaders: Mapping[int, Leadership]) -> None:
        """Make the second of the replicas the first, and wait until the cluster says so."""
        observer, topic = self.deployed.observer, self.topics[0]
        order = {part: (*now.replicas[1:], now.replicas[0]) for part, now in leaders.items()}
        observer.reorder_replicas(topic, order)

        def ordered() -> bool:
            now = leaderships(self.deployed, topic)
            return all(now[part].replicas == order[part] for part in order)

        wait_until(ordered, within_s=SYNC_S, because="another replica to be preferred", poll_s=0.05)

    def _elect(self, partitions: Iterable[int]) -> None:
        observer, topic = self.deployed.observer, self.topics[0]

        def moved() -> bool:
            answered(lambda: observer.prefer_leaders((topic,)))
            now = leaderships(self.deployed, topic)
            return all(now[part].leader == now[part].replicas[0] for part in partitions)

        wait_until(moved, within_s=SYNC_S, because="another replica to lead", poll_s=0.05)
        # one broker's word is not the new leader's: only it tells where its log ends, and fetches from nobody then
        if not self._stalled:  # it would wait for followers that get nothing, and gets nothing itself
            observer.close()
            answered(lambda: observer.ends(topic))
        self._say_leaders()

    def _say_leaders(self) -> dict[int, Leadership]:
        """Who leads the partitions of the topic, and who coordinates transactions, written down."""
        topic = self.topics[0]
        said = say_leaderships(self.deployed, self.history, (topic, TRANSACTION_LOG[0]))
        return {part: now for (name, part), now in said.items() if name == topic}

    def _number(self, role: Role) -> int:
        """The number of the broker that has this role for the target's partition."""
        known = self._say_leaders()
        if role is Role.COORDINATOR:
            topic, partition = TRANSACTION_LOG
            return leaderships(self.deployed, topic)[partition].leader
        if role is Role.CONTROLLER:
            return answered(self.deployed.observer.controller)
        now = known[self._partitions(known)[0]]
        if role is Role.FOLLOWER:
            return next(number for number in now.replicas if number != now.leader)
        return now.leader

    def _partitions(self, leaderships: Mapping[int, Leadership]) -> list[int]:
        """The partition of the target; while its request is held, those that the broker it goes to leads."""
        for sent in self.so_far.of(kinds.SENT, kinds.UNSENT):
            if sent["record"] == self.load.target.id:
                return [int(sent["partition"])]
        if self._hit is None:
            raise RuntimeError("nothing was hit: nobody knows where the target goes")
        leads = [part for part, now in leaderships.items() if name_of(now.leader) == self._hit["node"]]
        if not leads:
            raise RuntimeError(f"the target goes to {self._hit['node']}, which leads nothing")
        return leads

    def _say_alone(self) -> None:
        """Write down what only the leader has."""
        copied = {e["record"] for e in self.so_far.of(kinds.REPLICATED) if e["reached"]}
        for record in sorted({e["record"] for e in self.so_far.of(kinds.SENT)} - copied):
            self.history.write(kinds.ALONE, record=record)

    def _say_ungoverned(self, controller: Broker) -> None:
        """Write down what was stored since the only controller has died."""
        end = controller.process().exit
        for answer in self.so_far.of(kinds.PRODUCE_ANSWER):
            if end is not None and answer["t"] > end.at_ns and answer["reached"] and not answer["error"]:
                self.history.write(kinds.UNGOVERNED, record=answer["record"])

    def _node(self, number: int, role: Role) -> ServerNode:
        broker = self.deployed.servers[number - 1]
        return ServerNode(self.history, broker.process, lambda: self._kill(broker), lambda: self._restart(broker),
                          broker.name, role, end_it=lambda: self._end(broker))  # fmt: skip

    def _kill(self, broker: Broker) -> Exit:
        """SIGKILL it. Its routes stay: with nobody behind them the wire refuses, as a dead broker's port does."""
        end = broker.process().kill()
        self.deployed.observer.close()
        return end

    def _end(self, broker: Broker) -> Exit:
        """SIGTERM: it hands over what it leads, closes its logs and ends."""
        end = broker.process().terminate(ORDERLY_S)
        self.deployed.observer.close()
        return end

    def _restart(self, broker: Broker) -> None:
        """Start it again on the same data; it is ready when all is in sync, or, while others are dead too, when it listens."""
        if broker.controls:
            self._say_ungoverned(broker)
        broker.start()
        if any(other.process().exit is not None for other in self.deployed.servers):
            return
        if broker.controls:
            wait_until(lambda: answered(self.deployed.observer.controller) == broker.number, within_s=SYNC_S, poll_s=0.05,
                       because=f"{broker.name} to lead the quorum again")  # fmt: skip
        await_in_sync(self.deployed, (*self.topics, *INTERNAL_TOPICS))

    def _who(self, hit: Event) -> str:
        if hit["role"] == INTER_BROKER:  # broker-2-fetcher-0
            return "-".join(hit["client"].split("-")[:2])
        return super()._who(hit)


class ClusterCellRun(KafkaCellRun):
    """The run of one cell on a cluster."""

    bench_class = ClusterBench

    def __init__(self, deployed: KafkaDeployed, cell: Cell, directory: Path, history: HistoryWriter) -> None:
        super().__init__(deployed, cell, directory, history)
        self.placement = self._place

    def prepare_ground(self) -> None:
        """Wait for what the cell before has left behind, and for the first broker to lead Kafka's own topics again."""
        await_in_sync(self.deployed, INTERNAL_TOPICS)
        wait_until(self._home, within_s=SYNC_S, because="the first broker to lead Kafka's own topics", poll_s=0.1)
        super().prepare_ground()
        topic = self.cell.settings.topic
        config = {"min.insync.replicas": str(topic.min_insync)}
        self.deployed.observer.create_topics({probe_of(self.cell.key): (topic.partitions, config)}, self.placement)
        await_in_sync(self.deployed, self._used_topics())

    def load(self) -> None:
        """Start the producer, where nothing has moved since the ground was prepared: who coordinates must not lead data."""
        wait_until(self._home, within_s=SYNC_S, because="the first broker to lead Kafka's own topics", poll_s=0.1)
        super().load()

    def log_trouble(self) -> str | None:
        """Which partition has an open transaction, a replica not in sync, or records that nobody may see yet, or ``None``."""
        return super().log_trouble() or out_of_sync(self.deployed, self._used_topics()) or self._unseen()

    def _unseen(self) -> str | None:
        """Which leader has records above its high watermark: with one ack they are acknowledged before others have them."""
        for topic in self._used_topics():
            ends = self.deployed.observer.ends(topic)
            for partition, now in leaderships(self.deployed, topic).items():
                leader = next((broker for broker in self.deployed.brokers if broker.number == now.leader), None)
                end = ends[partition].end if partition in ends else -1
                if leader is None or last_offset(leader, topic, partition) >= end:
                    return f"{topic}/{partition}: the leader has more than the high watermark says: {end}"
        return None

    def observe(self) -> None:
        """Ask every authority, who leads at the end, and what each replica has in its files."""
        super().observe()
        say_leaderships(self.deployed, self.history, self._used_topics())
        for topic in self._used_topics():
            for broker in self.deployed.brokers:
                self._observe_replica(broker, topic)

    def _observe_replica(self, broker: Broker, topic: str) -> None:
        """Write down what the log files of one broker hold; a batch that is still being written is left out."""
        for partition, data in broker.log_of(topic):
            for batch in read_batches(data):
                for item in batch.items:
                    self.history.write(
                        kinds.REPLICA, node=broker.name, topic=topic, partition=partition, offset=item.offset,
                        epoch=batch.epoch, record=decode_id(item.value),
                    )  # fmt: skip

    def close(self) -> None:
        """End the processes, leave the wire; start again what a fault has left dead."""
        super().close()
        for server in self.deployed.servers:
            if server.process().exit is not None:
                server.start()

    def _home(self) -> bool:
        """Whether the first broker leads Kafka's own topics; it is asked to, where it does not."""
        observer = self.deployed.observer
        if all(now.leader == 1 for topic in INTERNAL_TOPICS for now in leaderships(self.deployed, topic).values()):
            return True
        answered(lambda: observer.prefer_leaders(INTERNAL_TOPICS))
        return False

    def _place(self, partition: int) -> list[int]:
        """The brokers of a partition, its preferred leader first: in turn, but never the one that coordinates."""
        others = [broker.number for broker in self.deployed.brokers[1:]]
        first = others[(self.cell.seed + partition) % len(others)]
        rest = [number for number in (*others, 1) if number != first]
        return [first, *rest][: self.cell.settings.topic.replicas]


def last_offset(broker: Broker, topic: str, partition: int) -> int:
    """Return the last offset in a broker's own log file of a partition; -1 where there is none."""
    logs = (read_batches(data) for number, data in broker.log_of(topic) if number == partition)
    return max((batch.last_offset for batches in logs for batch in batches), default=-1)


def probe_of(key: str) -> str:
    """The topic beside a cell's own, placed like them, on which a leader is asked what it would do."""
    return f"{key}.probe"


def answered(question: Callable[[], T]) -> T:
    """Ask until a broker answers: the one that was asked first may be the one that has died."""
    found: list[T] = []

    def got() -> bool:
        try:
            found.append(question())
        except KafkaError:
            return False
        return True

    wait_until(got, within_s=SYNC_S, because="a broker of the cluster to answer", poll_s=0.05)
    return found[0]


def leaderships(deployed: KafkaDeployed, topic: str) -> dict[int, Leadership]:
    """Return who leads and who follows each partition of a topic."""
    return answered(lambda: deployed.observer.leaderships(topic))


def out_of_sync(deployed: KafkaDeployed, topics: Iterable[str]) -> str | None:
    """Say which partition has a replica that is not in sync, or no leader."""
    for topic in topics:
        for partition, now in leaderships(deployed, topic).items():
            if now.leader < 0 or len(now.isr) < len(now.replicas):
                missing = sorted(set(now.replicas) - set(now.isr))
                return f"{topic}/{partition}: broker {', '.join(map(str, missing))} not in sync, leader {now.leader}"
    return None


def await_in_sync(deployed: KafkaDeployed, topics: Iterable[str]) -> None:
    """Wait until every replica of these topics is in sync."""
    topics = tuple(topics)
    wait_until(lambda: out_of_sync(deployed, topics) is None, within_s=SYNC_S, because="all replicas to be in sync", poll_s=0.05)


def say_leaderships(deployed: KafkaDeployed, history: HistoryWriter, topics: Iterable[str]) -> dict[tuple[str, int], Leadership]:
    """Ask the cluster who leads these topics and its quorum, and write it down."""
    found = {}
    controller = name_of(answered(deployed.observer.controller), deployed.size)
    for topic in topics:
        for partition, now in leaderships(deployed, topic).items():
            history.write(
                kinds.LEADERSHIP, topic=topic, partition=partition, leader=name_of(now.leader), number=now.leader,
                epoch=now.epoch, controller=controller,
                replicas=[name_of(n) for n in now.replicas], isr=[name_of(n) for n in now.isr],
            )  # fmt: skip
            found[topic, partition] = now
    return found
