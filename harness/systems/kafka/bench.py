"""The Kafka side of :class:`harness.bench.Bench`: triggers on the wire and in programs, victims, and forgetting."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kafka.errors import KafkaError
from kafka.partitioner.default import murmur2

from harness import failpoint
from harness.bench import AtWrite, Blow, Fired, InProgram, NotFiredError, OnWire, Trigger
from harness.core import events as kinds
from harness.core.history import SUFFIX
from harness.core.scenario import Role
from harness.core.waiting import WaitTimeoutError, wait_until
from harness.faults.firing import rule_at
from harness.systems.kafka.broker import INTER_BROKER, INTERNAL_TOPICS
from harness.systems.kafka.containers import Containers
from harness.systems.kafka.nodes import ServerNode, StageNode
from harness.wire.rules import Action, Api, Direction, How, is_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from harness.bench import Server, Target
    from harness.core.cell import Cell, Load
    from harness.core.history import Event, HistoryWriter
    from harness.core.tail import SoFar
    from harness.systems.kafka.broker import Broker
    from harness.systems.kafka.network import CellNetwork
    from harness.systems.kafka.system import KafkaDeployed
    from harness.toxiproxy import Toxic
    from harness.wire.messages import Traffic
    from harness.wire.rules import Rule

FIRE_S = 60.0
"""How long a trigger may take to fire."""
GLANCE_S = 0.1
"""How often it is looked whether anything moves."""
IDLE_S = 1.5
"""How long nothing may move, with the source exhausted and all positions at their ends, before a trigger counts as not fired."""
UNSETTLED_S = 25.0
"""Likewise while a position is still to come: its program may be starved, or have slow work to do."""
EXPULSION_S = 30.0
LOOK_S = 2.0
"""How late a client may notice that its session is over."""
JOIN_S = 30.0


@dataclass
class KafkaBench:
    """What the faults see of one cell."""

    deployed: KafkaDeployed
    cell: Cell
    load: Load
    history: HistoryWriter
    events: Path
    so_far: SoFar
    """What is in there."""
    failpoints: Path
    topics: tuple[str, ...]
    group: str
    stages: tuple[StageNode, ...]
    broker: ServerNode | None
    progress: Callable[[], Any]
    """A value that changes while the cell makes progress."""
    settled: Callable[[], bool]
    """Whether every saved position is past the last visible record."""
    exhausted: Callable[[], bool]
    """Whether the source has nothing left to give."""
    substitute: Callable[[], tuple[StageNode, StageNode]] | None = None
    """Puts another producer in the place of the cell's; returns both."""
    newcomer: Callable[[Role], StageNode] | None = None
    """Makes one more process of a role, of the cell from then on."""
    database: ServerNode | None = None
    network: CellNetwork | None = None
    make_topics: Callable[[], None] | None = None
    """Makes the cell's topics, once more where a volume with all of them was lost."""
    idle_s: float = IDLE_S
    has_fired: bool = False
    """Whether the fault's own trigger has fired, not only what it counts from."""
    added: int = 0
    """How many partitions the topic has got."""
    _grows_ns: int = 0
    """When it was told to grow: a member may learn of that before the observer does."""
    _put_out_ns: int = 0
    """When the group was seen to have put a member out: it is answered that it is none, whenever it asks."""
    _rules: list[str] = field(default_factory=list)
    _rule_of: dict[OnWire, str] = field(default_factory=dict)
    _hit: Event | None = None
    """What the wire has written of the frame at which a trigger fired last."""
    _taken: Counter[str] = field(default_factory=Counter)
    """How many hits of each rule were taken note of."""
    _kept: Containers | None = None
    _reached: dict[Trigger | AtWrite, Fired] = field(default_factory=dict)
    _waiting: dict[OnWire, Rule] = field(default_factory=dict)
    """Rules that are armed when what they count from has fired."""

    def arm(self, trigger: OnWire, rule: Rule) -> None:
        """Arm a rule of the wire at the trigger's record and role."""
        if trigger.since is None:
            record = self.load.records[self.load.target.position - 1 + trigger.offset].id
            self._put(trigger, replace(rule, role=str(trigger.role), record=record))
        elif (near := self._reached.get(trigger.since)) is not None:
            self._put(trigger, replace(rule, role=str(trigger.role), client=self._client_of(near)))
        else:
            if isinstance(trigger.since, InProgram):
                self.arm_failpoint(trigger.since, "pause")
            else:
                self.arm(trigger.since, rule_at(trigger.since, Action.HOLD, "approach"))
            self._waiting[trigger] = rule

    def _client_of(self, fired: Fired) -> str | None:
        """What a rule selects by, that is to be about the process at which a trigger fired."""
        return f"{{key}}.{fired.node}"

    def _put(self, trigger: OnWire, rule: Rule) -> None:
        self.deployed.wire.arm(self.cell.id, rule)
        self._rules.append(rule.id)
        self._rule_of[trigger] = rule.id

    def arm_failpoint(self, trigger: InProgram, action: str) -> None:
        """Arm a failpoint at the target."""
        failpoint.arm(self.failpoints, trigger.name, record=self.load.target.id, action=action,
                      history=self.events / f"failpoint{SUFFIX}", cell=self.cell.id)  # fmt: skip

    def arm_write(self, trigger: AtWrite) -> None:
        """Our own programs have failpoints where they record."""
        raise NotImplementedError(f"{self.cell.id} has a failpoint there: nobody traces the {trigger.role}")

    def let_go(self, trigger: InProgram) -> None:
        """Let a program go on that is held at a failpoint."""
        failpoint.release(self.failpoints, trigger.name)

    def await_fired(self, trigger: Trigger | AtWrite) -> Fired:
        """Wait until the trigger fires, or until nothing moves any more, or FIRE_S."""
        if isinstance(trigger, OnWire) and trigger in self._waiting:
            self._approach(trigger)
        # what counts from something that has fired is about to come, and does not show beforehand
        near = isinstance(trigger, OnWire) and trigger.since is not None
        idle = Idle(self.progress, self.exhausted, FIRE_S if near else self.idle_s)

        def over() -> bool:
            return idle.over() and (idle.still_s > UNSETTLED_S or self._is_settled())

        try:
            fired = wait_until(lambda: self._fired(trigger) or over(), within_s=FIRE_S, because="the fault to fire")
        except WaitTimeoutError:
            fired = None
        if not isinstance(fired, Fired):
            raise NotFiredError(trigger)
        self._reached[trigger] = fired
        return fired

    def _is_settled(self) -> bool:
        try:
            return self.settled()
        except (KafkaError, WaitTimeoutError):  # nobody can tell
            return False

    def _approach(self, trigger: OnWire) -> None:
        """Wait until a process stands still with the target in hand, or at it, arm the rule, let it go on."""
        rule, since = self._waiting.pop(trigger), trigger.since
        if since is None:
            raise NotFiredError(trigger)
        near = self.await_fired(since)
        self.arm(trigger, rule)
        if near.hold is None:
            self.target(since.role, near.node).resume()
        else:
            self.resolve(near.hold, How.RELEASE)

    def resolve(self, hold: str | None, how: How) -> bool:
        """Say what becomes of what the wire holds; whether it got to where it was to go (its client may have hung up)."""
        return hold is not None and self.deployed.wire.resolve(hold, how).reached

    def target(self, role: Role, node: str | None = None) -> Target:
        """Return the node of a role."""
        servers = {Role.BROKER: self.broker, Role.DATABASE: self.database}
        if role in servers:
            server = servers[role]
            if server is None:
                raise RuntimeError(f"{self.cell.id} kills the {role}, and must not share it: Deployment.OWN")
            return server
        fitting = [stage for stage in self.stages if stage.role is role and node in (None, stage.name)]
        if not fitting:
            raise RuntimeError(f"{self.cell.id} has no {role} named {node}")
        return fitting[0]

    def say(self, phase: str, **fields: Any) -> None:
        """Write a ``fault`` event."""
        self.has_fired |= phase == "fired"
        self.history.write(kinds.FAULT, phase=phase, fault=self.cell.scenario.fault.id, **fields)

    def await_flush_known(self) -> None:
        """Wait for two whole rounds of the broker's checkpoints: the second began after now."""
        for broker in self.deployed.brokers:
            seen = {broker.checkpoint()}

            def twice(broker: Broker = broker, seen: set[tuple[int, int]] = seen) -> bool:
                seen.add(broker.checkpoint())
                return len(seen) > 2  # noqa: PLR2004 - the one there was, and two written since

            wait_until(twice, within_s=FIRE_S, because=f"{broker.name} to write its recovery points twice")

    def forget_unflushed(self, *, internal_topics: bool) -> None:
        """Revert the cell's topics to their flushed state, while the broker is down."""
        names = (*self.topics, *(INTERNAL_TOPICS if internal_topics else ()))
        dead = [broker for broker in self.deployed.brokers if broker.process().exit is not None]
        points: dict[str, int] = {}
        for broker in dead:
            for folder, offset in broker.flushed(self.topics[:1]).items():
                points[folder] = min(points.get(folder, offset), offset)
        for folder, offset in points.items():
            self.history.write(kinds.FLUSHED, partition=int(folder.rsplit("-", 1)[1]), offset=offset)
        for broker in dead:
            for folder, (before, after) in broker.forget_unflushed(names).items():
                self.say("forgot", node=broker.name, file=folder, bytes_before=before, bytes_after=after)

    def await_exhausted(self) -> None:
        """Wait until the producer has ended: longer than its client may take to give a record up, which is then sent again."""
        patience_s = self.cell.settings.producer.delivery_timeout_ms / 1000
        wait_until(self.exhausted, within_s=FIRE_S + patience_s, because="the source to be exhausted")

    def settle(self) -> None:
        """Wait until the consuming side is behind everything that is visible now."""
        wait_until(self.settled, within_s=FIRE_S, because="everything acknowledged to be recorded", poll_s=0.05)

    def lose_checkpoint(self) -> None:
        """No query, no checkpoint."""
        raise NotImplementedError(f"{self.cell.id} has no streaming query")

    def expire(self) -> None:
        """No query, no batch in hand."""
        raise NotImplementedError(f"{self.cell.id} has no streaming query")

    def forget_positions(self) -> None:
        """Put the dead members out, delete the group, and say what it had saved."""
        observer, topic = self.deployed.observer, self.topics[0]
        had = observer.positions(self.group, topic)
        observer.expel(self.group)
        observer.forget((), [self.group])
        if left := observer.positions(self.group, topic):
            raise RuntimeError(f"the group {self.group} was deleted, and has saved {left}")
        self.say("forgot", group=self.group, positions={str(partition): offset for partition, offset in had.items()})

    def await_reading(self, node: Target, *, anew: bool = False) -> None:
        """Wait for the first Fetch request of its present incarnation, or for two more than there are."""
        if not isinstance(node, StageNode):
            raise TypeError(f"{node.name} reads nothing")
        client = node.stage.client_id
        asked = self._asked(Api.FETCH, lambda e: is_prefix(client, e["client"]))
        want = len(asked()) + 2 if anew else 1
        wait_until(lambda: node.ended() is not None or len(asked()) >= want, within_s=FIRE_S, poll_s=0.1,
                   because=f"{node.name} to ask for records")  # fmt: skip

    def await_asked(self, role: Role, sleeper: Target) -> None:
        """Wait for an OffsetFetch request of another, since the sleeper was stopped."""
        since = max(e["t"] for e in self.so_far.of(kinds.NODE) if e["phase"] == "paused" and e["node"] == sleeper.name)
        others = [f"{self.cell.key}.{stage.name}" for stage in self.stages if stage.role is role and stage.name != sleeper.name]
        asked = self._asked(Api.OFFSET_FETCH, lambda e: e["t"] > since and any(is_prefix(other, e["client"]) for other in others))
        wait_until(asked, within_s=FIRE_S, because=f"another {role} to ask for the positions of what it took over", poll_s=0.1)

    def _asked(self, api: Api, wanted: Callable[[Event], bool]) -> Callable[[], Sequence[Event]]:
        """Return what returns the requests of an API that have come so far, and are ``wanted``."""
        return self.so_far.finder(kinds.FRAME, lambda e: e["api"] == api.label and e["dir"] == Direction.REQUEST and wanted(e))

    def await_aborted(self, node: Target) -> None:
        """Ask the coordinator; the transaction was open when its process was stopped."""
        if not isinstance(node, StageNode):
            raise TypeError(f"{node.name} has no transaction")
        name = node.stage.transactional_id
        wait_until(lambda: self.deployed.observer.transaction(name) == "CompleteAbort", within_s=FIRE_S, poll_s=0.05,
                   because=f"the coordinator to abort what the {node.name} has left open")  # fmt: skip

    def supervise(self, node: Target) -> None:
        """Start it again where it ended by an error."""
        if not isinstance(node, StageNode):
            raise TypeError(f"{node.name} has no supervisor")
        wait_until(lambda: node.ended() or (self.exhausted() and self.settled()), within_s=FIRE_S, poll_s=0.05,
                   because=f"{node.name} to end, or to go on")  # fmt: skip
        end = node.ended()
        if end is not None and end.status != 0:
            node.supervised = True
            node.restart()

    def join(self, role: Role) -> None:
        """Start one more process of a role, and wait until it is a member."""
        if self.newcomer is None:
            raise NotImplementedError(f"{self.cell.id}: nobody joins the {role}s")
        stage = self.newcomer(role)
        self.stages = (*self.stages, stage)
        stage.start()
        wait_until(lambda: self.deployed.observer.joined(self.group, stage.stage.client_id), within_s=JOIN_S, poll_s=0.05,
                   because=f"{stage.name} to ask for a place in the group")  # fmt: skip

    def stand_in(self, role: Role) -> None:
        """Start another producer in the place of the first; groups share the work among the processes they have."""
        if self.substitute is None or role is not Role.PRODUCER:
            raise NotImplementedError(f"{self.cell.id}: nobody stands in for a {role}")
        first, second = self.substitute()
        self.stages = tuple(second if stage is first else stage for stage in self.stages)
        self.history.write(kinds.NODE, node=first.name, role=role, incarnation=first.stage.incarnation, phase="replaced")
        second.restart()

    def await_zombie(self, node: Target) -> None:
        """Wait until it has ended: it was fenced, or has sent everything."""
        if not isinstance(node, StageNode):
            raise TypeError(f"{node.name} was not replaced")
        wait_until(node.ended, within_s=FIRE_S, because=f"the replaced {node.name} to end", poll_s=0.05)

    def await_session_expired(self, role: Role) -> None:
        """Wait until the group has one member less than the cell has processes of this role."""
        want = sum(stage.role is role for stage in self.stages) - 1
        wait_until(lambda: self.deployed.observer.members(self.group) <= want, within_s=EXPULSION_S, poll_s=0.1,
                   because=f"the group to put out a paused {role}")  # fmt: skip
        self._put_out_ns = time.monotonic_ns()

    def outlast_session(self) -> None:
        """Wait until a consumer that began to count now is at its end; clients look once a second."""
        session_s = self.cell.settings.consumer.session_ms / 1000
        over = time.monotonic() + session_s + LOOK_S
        wait_until(lambda: time.monotonic() >= over, within_s=session_s + FIRE_S, because="a session to be over", poll_s=0.05)

    def await_put_out(self, node: Target) -> None:
        """Wait until its coordinator has answered it, once more since the group put it out."""
        if not isinstance(node, StageNode):
            raise TypeError(f"{node.name} is a member of no group")
        told, client, since = {api.label for api in (Api.HEARTBEAT, Api.JOIN_GROUP)}, node.stage.client_id, self._put_out_ns
        answered = self.so_far.finder(
            kinds.FRAME,
            lambda e: e["dir"] == Direction.RESPONSE and e["api"] in told and e["t"] > since and is_prefix(client, e["client"]),
        )
        wait_until(answered, within_s=FIRE_S, because=f"{node.name} to be told that it is out of its group", poll_s=0.05)

    def worsen_network(self, roles: Iterable[Role], toxics: Iterable[Toxic]) -> None:
        """Put toxics on the cell's proxies, and count from there on."""
        for role in roles:
            self._network().worsen(role, toxics)

    def mend_network(self, roles: Iterable[Role], toxics: Iterable[Toxic]) -> None:
        """Take them off, and write down what passed meanwhile."""
        for role in roles:
            self._network().mend(role, toxics)

    def await_traffic(self, role: Role, enough: Callable[[Traffic], bool], because: str) -> None:
        """Wait until what has passed since the network was made bad is ``enough``."""
        wait_until(lambda: enough(self._network().traffic(role)), within_s=FIRE_S, because=because, poll_s=0.05)

    def await_told(self) -> None:
        """Wait until the producer's ledger says that the fate of the target is not known."""
        told = self.so_far.finder(kinds.UNKNOWN, lambda e: e["record"] == self.load.target.id)
        wait_until(told, within_s=FIRE_S, because="the program to be told that the target's fate is unknown", poll_s=0.05)

    def _network(self) -> CellNetwork:
        if self.network is None:
            raise RuntimeError(f"{self.cell.id} has no network of its own")
        return self.network

    def stall_replication(self) -> None:
        """Nobody follows the one broker."""
        raise NotImplementedError(f"{self.cell.id} has one broker")

    def await_shrunk(self) -> None:
        """Nobody follows the one broker."""
        raise NotImplementedError(f"{self.cell.id} has one broker")

    def move_leader(self) -> None:
        """Nobody else could lead."""
        raise NotImplementedError(f"{self.cell.id} has one broker")

    def prefer_another(self) -> None:
        """Nobody else could lead."""
        raise NotImplementedError(f"{self.cell.id} has one broker")

    def elect_preferred(self) -> None:
        """Nobody else could lead."""
        raise NotImplementedError(f"{self.cell.id} has one broker")

    def next_broker(self) -> Server:
        """Nobody else would serve meanwhile."""
        raise NotImplementedError(f"{self.cell.id} has one broker")

    def add_partitions(self) -> None:
        """Give the topic more partitions; a key's partition is murmur2 of it, for every client here."""
        before = self.cell.settings.topic.partitions + self.added
        later = [record.key for record in self.load.records[self.load.target.position :]]
        after = sized(self.load.target.key, later, before)
        self._grows_ns = time.monotonic_ns()
        self.deployed.observer.grow(self.topics[0], after)
        self.added += after - before
        for partition in range(before, after):
            self.history.write(kinds.ADDED, topic=self.topics[0], partition=partition, before=before)

    def await_metadata(self, node: Target) -> None:
        """Wait until its client has asked twice since the topic grew, and so has been answered once."""
        if not isinstance(node, StageNode):
            raise TypeError(f"{node.name} asks for no metadata")
        since, client = max(e["t"] for e in self.so_far.of(kinds.ADDED)), node.stage.client_id
        asked = self._asked(Api.METADATA, lambda e: e["t"] > since and is_prefix(client, e["client"]))
        wait_until(lambda: len(asked()) > 1, within_s=FIRE_S, because=f"{node.name} to learn of new partitions", poll_s=0.05)

    def await_shared_out(self) -> None:
        """Wait until the members of the group, as they say, have been given all the partitions that were added."""
        added = {e["partition"] for e in self.so_far.of(kinds.ADDED)}

        def given() -> bool:
            late = (e for e in self.so_far.of(kinds.READY) if e["t"] > self._grows_ns)
            last = {e["by"]: set(e.get("partitions") or ()) for e in late}
            return added <= set().union(*last.values())

        wait_until(given, within_s=FIRE_S, because="the group to share out the partitions that were added", poll_s=0.05)

    def strike(self, blow: Blow, role: Role) -> str:
        """Do to a container what only a container can suffer."""
        node = self._struck(role)
        self._containers().strike(blow, node)
        return node.name

    def mend(self, blow: Blow, role: Role) -> None:
        """Heal that. A node without a network is given it back when it has given up its connections."""
        node = self._struck(role)
        if blow is Blow.NETWORK:
            self._containers().await_given_up(node)
        self._containers().mend(blow, node)

    def _containers(self) -> Containers:
        if self._kept is None:
            if self.make_topics is None:
                raise RuntimeError(f"{self.cell.id} has no containers")
            self._kept = Containers(self.deployed, self.history, self.make_topics)
        return self._kept

    def _struck(self, role: Role) -> ServerNode | StageNode:
        node = self.target(role)
        if not isinstance(node, ServerNode | StageNode):
            raise TypeError(f"{node.name} cannot be struck")
        return node

    def _who(self, hit: Event) -> str:
        """The node whose frame was hit, by its client id; of what a broker asks another, the broker it goes to."""
        if hit["role"] == INTER_BROKER:
            return str(hit["node"])
        return str(hit["client"]).split(".")[1]

    def disarm(self) -> None:
        """Take back what has not fired, and discard what is still held (the wire writes both down)."""
        for held in self.deployed.wire.holds():
            if held.cell == self.cell.id:
                self.deployed.wire.resolve(held.held, How.DISCARD)
        while self._rules:
            self.deployed.wire.disarm(self.cell.id, self._rules.pop())

    def _fired(self, trigger: Trigger | AtWrite) -> Fired | None:
        if isinstance(trigger, OnWire):
            hit = self._hit = self._next_hit(trigger)
            return None if hit is None else Fired(hit.get("record"), self._who(hit), hit["held"])
        if isinstance(trigger, AtWrite) or all(e["name"] != trigger.name for e in self.so_far.of(kinds.FAILPOINT)):
            return None
        victim = next((stage for stage in self.stages if stage.role is trigger.role and stage.stopped_itself()), None)
        return None if victim is None else Fired(self.load.target.id, victim.name, None)

    def _next_hit(self, trigger: OnWire) -> Event | None:
        """Return the next hit of a trigger's rule that was not returned yet, if there is one. Raises WireError without a wire.

        It is read in the history as all that the wire has seen. The line is there when the frame stands still and its client is
        frozen, and before the wire does anything else: whatever is asked of it because of the line comes to a frame that is held.
        """
        rule = self._rule_of[trigger]
        hits = [e for e in self.so_far.of(kinds.RULE) if e["rule"] == rule and e["phase"] == "hit"]
        if len(hits) == self._taken[rule]:
            self.deployed.wire.check()
            return None
        self._taken[rule] += 1
        return hits[self._taken[rule] - 1]


class Idle:
    """Whether everything has been still for ``idle_s`` with the source exhausted."""

    def __init__(self, progress: Callable[[], Any], exhausted: Callable[[], bool], idle_s: float) -> None:
        self._progress = progress
        self._exhausted = exhausted
        self._idle_s = idle_s
        self._last: Any = None
        self._since = time.monotonic()
        self._looked = -GLANCE_S

    @property
    def still_s(self) -> float:
        """For how long, as seen when that was asked last."""
        return time.monotonic() - self._since

    def over(self) -> bool:
        """Look once more, unless somebody has only just done so: it costs more than the asking."""
        if time.monotonic() - self._looked < GLANCE_S:
            return False
        self._looked = time.monotonic()
        now = self._progress()
        if now != self._last or not self._exhausted():
            self._last, self._since = now, time.monotonic()
        return self.still_s > self._idle_s


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
