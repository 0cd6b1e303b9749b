"""One cell of a declared pipeline, step by step. Implements :class:`harness.interfaces.CellRun`.

Nothing in the user's programs is changed: what was sent, acknowledged and fetched is what the wire saw, what is stored is
what the logs say, and what is recorded is what the output holds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import sys
import time
from collections import Counter, defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import failpoint
from harness.bench import AtWrite, Fired, NotFiredError, OnWire
from harness.core import events as kinds
from harness.core.history import HISTORY, LOGS, SUFFIX
from harness.core.places import Removal, log_fields
from harness.core.scenario import Deployment, Role
from harness.core.states import Hop
from harness.core.tail import SoFar
from harness.core.waiting import WaitTimeoutError, wait_until
from harness.faults import NoFault
from harness.faults.firing import rule_at
from harness.pipelines.cells import DeclaredCell
from harness.pipelines.declaration import CONSUMING, PROCESS, InputKind, OutputKind, fill
from harness.runtimes.ports import PortLease
from harness.runtimes.process.processes import command_of, is_alive, local_ports
from harness.runtimes.process.scratch import NOTICE
from harness.systems.declared.draining import OUTPUT, REST, Drain
from harness.systems.declared.feeding import FileFeeder, HttpFeeder, OwnFeeder, StdinFeeder, TopicFeeder
from harness.systems.declared.holding import Holding, is_held_back
from harness.systems.declared.nodes import CommandNode, StageError
from harness.systems.declared.outputs import OutputError, results_of
from harness.systems.declared.sighted import Sighted
from harness.systems.declared.silence import Why, longest_silence, name_of, place_of
from harness.systems.declared.tail import is_recorded, was_given
from harness.systems.declared.watching import Watch
from harness.systems.declared.waves import STILL_S, Waves
from harness.systems.declared.workers import REPLACED_S, Workers
from harness.systems.kafka.bench import KafkaBench
from harness.systems.kafka.nodes import ServerNode
from harness.wire.rules import Action, Api, Direction, FreezeScope, How

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.bench import InProgram, Target, Trigger
    from harness.core.history import HistoryWriter
    from harness.pipelines.declaration import Stage
    from harness.systems.declared.feeding import Feeder
    from harness.systems.declared.outputs import Results
    from harness.systems.declared.system import DeclaredDeployed
    from harness.systems.kafka.observer import LogCopy, WholeLog
    from harness.wire.rules import Rule

PUT_OUT_S = 75.0
"""Longer than the session time-out that clients have by themselves, 45 s."""
ELSEWHERE_S = 45.0
"""How long a reader whose position nobody can ask for may take to read on."""
TELLING = (
    Api.HEARTBEAT, Api.CONSUMER_GROUP_HEARTBEAT, Api.OFFSET_COMMIT, Api.TXN_OFFSET_COMMIT, Api.JOIN_GROUP, Api.SYNC_GROUP,
)  # fmt: skip
"""Whose answers tell a client whether it is a member of its group."""
STEPS = {
    Api.PRODUCE: kinds.PRODUCE_ANSWER,
    Api.FETCH: kinds.FETCHED,
    Api.OFFSET_COMMIT: kinds.COMMITTED,
    Api.END_TXN: kinds.ENDING,
}
"""Which line of the wire says that a request of this kind, about a record, has come through."""
UNPRINTED = (
    "what a program prints into a pipe or a file stands in a buffer of its own until that is full, and a crash loses it: let it "
    "flush behind each result, as print(…, flush=True) does, or say in its environment what your production says, as "
    'PYTHONUNBUFFERED = "1"'
)
"""What is said where nothing was printed."""
REJOINS_S = 10.0
"""How long the others of a group may take to hear that one joins it again: they ask every 3 s."""
IMAGES_PYTHON = "python3"
"""What ``{python}`` is in the command of a container."""
SASL_HANDSHAKE = "api-17"
FREE_TEXT = (OutputKind.LINES, OutputKind.STDOUT, OutputKind.COMMAND)
"""Outputs that hold other lines than results: those without an id are none."""
ASKS_NOBODY_S = 3.0
"""How long a reader that has asked for no group may take to save a position all the same."""
COMMITS_S = 35.0
"""Longer than the longest commit interval that clients have by themselves: Kafka Streams', 30 s."""
IDLE_S = 8.0
"""Longer than a client's auto-commit interval: the request that is waited for may come as late as that."""


TOO_LARGE = (10, 18)
"""Errors of a broker that will not take a batch: MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE."""
HELD_BACK_S = 3.0
"""A reader that an open transaction holds back for longer is told of."""
MOST_SHOWN = 120
"""Characters of a row, or of a record, that are shown."""


@dataclass(frozen=True, slots=True)
class Result:
    """What was found at the end in an output or a log: the ids in it, and where it stands. It counts for the first of them."""

    ids: Sequence[str]
    order: int
    text: str
    lacks: frozenset[int] = frozenset()
    """The columns in which it has nothing, and every result had something without a fault."""

    @property
    def record(self) -> str | None:
        """The record that it is a result of, or a copy of; ``None``: of none."""
        return next(iter(self.ids), None)

    @property
    def shown(self) -> str:
        """Its beginning."""
        return self.text[:MOST_SHOWN]


def unfilled(results: Sequence[Result]) -> list[Result]:
    """Return those that lack something, of records of which no other has all: one that is whole is there, and has a copy."""
    whole = {result.record for result in results if not result.lacks}
    return [result for result in results if result.lacks and result.record is not None and result.record not in whole]


def _text_of(copy: LogCopy) -> str:
    return (copy.value or b"").decode("utf-8", "replace")


@dataclass
class DeclaredBench(KafkaBench):
    """What the faults see: of a foreign program the wire knows the route, and the route is the stage.

    A stage may be several processes: at a failpoint one of them stands still until all are killed, or that one alone.
    """

    groups: Callable[[], Sequence[str]] = tuple
    """The consumer groups of the cell."""
    hurry: Callable[[], None] = lambda: None
    """Gives the producer all records that are left, and the end of its input."""
    attribute: Callable[[], None] = lambda: None
    """Look whose the new connections are."""
    writes: Path = field(default_factory=Path)
    """Where the durable writes of a stage are written down."""
    _traced: CommandNode | None = None
    """The stage that is to be held at one of them."""
    _victim: int | None = None
    """The one process that is to be crashed, where it is not the whole stage."""
    _members: int = 0
    """How many members the groups had when the fault fired."""

    def arm(self, trigger: OnWire, rule: Rule) -> None:
        """Arm a rule of the wire; where one process of several is crashed, the connections of the others are not touched."""
        if rule.freeze is FreezeScope.CLIENT and self._crashes_one(trigger.role):
            rule = dataclasses.replace(rule, freeze=None)
        super().arm(trigger, rule)

    def _client_of(self, fired: Fired) -> None:
        """A foreign program's clients have names of their own: its route is all that a rule selects by."""

    def target(self, role: Role, node: str | None = None) -> Target:
        """Return the stage of a role, or the one process of it that hit the fault."""
        found = super().target(role, node)
        return found.one(self._victim) if isinstance(found, CommandNode) and self._victim is not None else found

    def stage(self, role: Role, node: str | None = None) -> CommandNode:
        """Return the stage of a role."""
        found = super().target(role, node)
        if not isinstance(found, CommandNode):
            raise TypeError(f"the {role} is no stage of the pipeline")
        return found

    def end_input(self) -> None:
        """Give the producer all records that are left, and the end of its input."""
        self.hurry()

    def await_session_expired(self, role: Role) -> None:
        """Wait until the groups have one member less than when the fault fired."""
        wait_until(lambda: self._membership() < self._members, within_s=PUT_OUT_S, poll_s=0.1,
                   because=f"the group to put out a paused {role} (its session time-out?)")  # fmt: skip

    def await_put_out(self, node: Target) -> None:
        """Wait until the process has been told that it is no member any more, and has become one again, if it does at once.

        It was put out before it was woken: so any answer to it about its membership says so, and so does its end.
        """
        since, victim = time.monotonic_ns(), self._victim or 0

        def ended() -> bool:
            return not is_alive(victim)

        late = self.so_far.finder(kinds.FRAME, lambda e: e["t"] > since and e["dir"] == Direction.RESPONSE)

        def answered(*apis: Api) -> bool:
            ports, labels = local_ports(victim), {api.label for api in apis}
            conns = {e["conn"] for e in self.so_far.of(kinds.CONN) if e.get("peer") in ports}
            return any(e["conn"] in conns and e["api"] in labels for e in late())

        told = f"the woken {node.name} to be told that it is out of the group"
        wait_until(lambda: ended() or answered(*TELLING), within_s=PUT_OUT_S, because=told, poll_s=0.05)
        with contextlib.suppress(WaitTimeoutError):  # it does not poll while it waits for what the wire holds
            wait_until(lambda: ended() or answered(Api.SYNC_GROUP), within_s=REJOINS_S, because="it to be a member again",
                       poll_s=0.05)  # fmt: skip

    def _crashes_one(self, role: Role) -> bool:
        stage = super().target(role)
        if not isinstance(stage, CommandNode):
            return False
        struck = self.cell.scenario.fault.evidence()
        return role in struck.paused or (role in struck.killed and stage.stage.crash == PROCESS)

    def struck(self, pid: int) -> bool:
        """Whether the fault was meant for this very process."""
        return pid == self._victim

    def _membership(self) -> int:
        return sum(self.deployed.observer.members(group) for group in self.groups())

    def _aim(self, role: Role, pid: int | None, conn: int | None = None) -> None:
        """Note which process of a stage is to be crashed, where it is one alone."""
        if not self._crashes_one(role):
            return
        if pid is None:
            raise StageError(f"the connection that the fault was hit on belongs to no process of the {role}")
        self._victim = pid
        self.history.write(kinds.OWNER, conn=conn, role=role, pid=pid, command=command_of(pid))

    def arm_write(self, trigger: AtWrite) -> None:
        """Let the target wait on its way to the stage: from there on its durable writes are counted."""
        self.arm(trigger.since, rule_at(trigger.since, Action.HOLD, "given"))

    def await_fired(self, trigger: Trigger | AtWrite) -> Fired:
        """Wait until the trigger fires; at a durable write, first until the stage is given the target, and is traced."""
        if isinstance(trigger, AtWrite):
            given = super().await_fired(trigger.since)
            self._traced = self.stage(trigger.role)
            self._traced.trace(self.writes, trigger.point)
            self.resolve(given.hold, How.RELEASE)
        return super().await_fired(trigger)

    def disarm(self) -> None:
        """Take back what has not fired, and discard what is still held."""
        super().disarm()
        if self._traced is not None:
            self._traced.untrace()

    def arm_failpoint(self, trigger: InProgram, action: str) -> None:
        """Arm a failpoint at the target."""
        del action  # what is to be done is done to the whole stage, by the fault itself
        target = self.load.target
        in_hand = self.cell.in_hand(target) if isinstance(self.cell, DeclaredCell) else target.id
        failpoint.arm(self.failpoints, trigger.name, record=in_hand, action="hold", cell=self.cell.id, called=target.id,
                      history=self.events / f"failpoint{SUFFIX}")  # fmt: skip

    def _fired(self, trigger: Trigger | AtWrite) -> Fired | None:
        self.attribute()
        if isinstance(trigger, OnWire):
            hit = self._next_hit(trigger)
            if hit is None:
                return None
            if self._crashes_one(trigger.role):
                self._members = self._membership()
                port = next((e["peer"] for e in self.so_far.of(kinds.CONN) if e["conn"] == hit["conn"]), 0)
                stage = super().target(trigger.role)
                self._aim(trigger.role, stage.owner(port) if isinstance(stage, CommandNode) else None, hit["conn"])
            return Fired(hit.get("record"), hit["role"], hit["held"])
        if isinstance(trigger, AtWrite):
            return self._held(self.stage(trigger.role))
        told = next(iter(self.so_far.of(kinds.FAILPOINT)), None)
        if told is None:
            return None
        stage = super().target(trigger.role)
        if self._crashes_one(trigger.role):
            self._aim(trigger.role, told["pid"])
        elif isinstance(stage, CommandNode):
            stage.claim(told["pid"])
        return Fired(self.load.target.id, stage.name, None)

    def _held(self, stage: CommandNode) -> Fired | None:
        """Say that a thread of a stage stands at its durable write, if one does."""
        held = stage.held()
        if held is None:
            return None
        if self._crashes_one(stage.role):
            self._aim(stage.role, held.pid)
        else:
            stage.claim(held.pid)
        return Fired(None, stage.name, None)


class DeclaredRun:
    """The run of one cell."""

    def __init__(self, deployed: DeclaredDeployed, cell: DeclaredCell, directory: Path, history: HistoryWriter) -> None:
        self.deployed = deployed
        self.cell = cell
        self.history = history
        self.directory = directory.resolve()
        self._fault: Any = cell.scenario.fault
        self._load = cell.load()
        self._known = {record.id: record for record in self._load.records}
        self._work = self.directory / "work"
        self._log = self.directory / LOGS
        self._pipeline = cell.declared
        self._lease = PortLease(1)
        self._nodes = {stage.role: self._node(stage) for stage in cell.declared.stages}
        self._results = self._reader()
        self._feeder: Feeder | None = None
        self._waves = Waves(len(self._load.records), seen=self._has_stepped, moves=self._moves, fired=self._has_fired,
                            still_s=deployed.silences.still(cell, STILL_S))  # fmt: skip
        if isinstance(self._fault, NoFault):
            self._waves.release()
        self._so_far = SoFar(self.directory / HISTORY)
        self._watch: Watch | None = None
        self.sighted = Sighted(self._so_far)
        self._holding: Holding | None = None
        """Of a producer that has all records from the start: what it must not send yet."""
        self.silences = deployed.silences
        self._attributed = 0
        self._held_back: tuple[str | None, float] = None, time.monotonic()
        """The log whose readers an open transaction holds back, and since when."""
        self._owners: dict[int, tuple[int, int]] = {}
        """Which process each connection belongs to, and which incarnation of its stage opened it."""
        self._tail = False
        """Whether the last records are recorded, and no position will be saved behind them."""
        self._written: tuple[Any, float] = None, time.monotonic()
        """How much the output held when it was last seen to have changed, and when that was."""
        self._on_wire = False
        self._closed = False
        self._loaded_at = 0
        own = cell.scenario.deployment is Deployment.OWN
        self._bench = DeclaredBench(
            deployed=deployed, cell=cell, load=self._load, history=history, events=self.directory / HISTORY,
            so_far=self._so_far, failpoints=self.directory / "failpoints", topics=(self._pipeline.topic,), group="",
            stages=tuple(self._nodes.values()),  # type: ignore[arg-type]  # they do what the bench asks of a stage
            broker=ServerNode(history, deployed.broker_process, deployed.kill_broker, deployed.restart_broker) if own else None,
            idle_s=self.silences.still(cell, IDLE_S), progress=self._progress,
            settled=lambda: self._position_trouble() is None, exhausted=self._exhausted,
            groups=self._groups, hurry=self._hurry, attribute=self.attribute,
            writes=self.directory / "writes.txt",
        )  # fmt: skip

        self._workers = Workers(self._nodes, self._bench.struck)

    # --- the steps ---------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Topics, wire, and the consuming stages, ready; then the fault, armed."""
        for folder in (self._work, self._log, self.directory / "failpoints"):
            folder.mkdir(parents=True, exist_ok=True)
        self._check_output_is_fresh()
        self.deployed.clean(self._pipeline.topics)
        self.deployed.create(dict.fromkeys(self._pipeline.topics, self._pipeline.partitions))
        routes = [route.name for route in self.deployed.routes(*map(str, self._nodes))]
        history = self.directory / HISTORY / "wire.jsonl"
        self.deployed.wire.open_cell(self.cell.id, self.cell.key, history, routes=routes, identity=self.cell.identity)
        self._on_wire = True
        consuming = [node for role, node in self._nodes.items() if role in CONSUMING]
        for node in consuming:
            node.start()
        for node in consuming:
            node.await_ready()
        self.attribute()
        if isinstance(self._fault, NoFault) and self._fault.watched:
            self._watch = Watch(consuming, self.directory / "writes")
        self._fault.arm(self._bench)

    def load(self) -> None:
        """Start the producer and offer it the records, or put them into the topic."""
        self._feeder = self._make_feeder()
        if is_held_back(self._pipeline.input.kind, self._fault):
            self._holding = Holding(self.deployed.wire, self.cell.id, self._load, seen=self._has_stepped, sighted=self.sighted,
                                    so_far=self._so_far)  # fmt: skip
            self._holding.start()
        if producer := self._nodes.get(Role.PRODUCER):
            producer.start()
            producer.await_ready()
        self.attribute()
        self._loaded_at = time.monotonic_ns()
        self._feeder.start()

    def inject(self) -> None:
        """Let the fault do its work."""
        try:
            with contextlib.suppress(NotFiredError):
                self._fault.inject(self._bench)
        finally:
            self._waves.release()
            if self._holding:
                self._holding.release()

    def drain(self) -> None:
        """Wait until everything is at rest."""
        self.history.write(kinds.DRAIN, phase="begun", stage=None, because=None)
        self._bench.disarm()
        waiting = Drain(self)
        try:
            self._await_rest(waiting)
        except WaitTimeoutError as error:
            if waiting.stage == REST:  # it is still, but for less time than it is bounded by: that is all there is to know
                self._drained(waiting)
                return
            self._check_anything_sent(f"in {self._pipeline.drain_s:g} s")
            because = waiting.because
            if waiting.stage == OUTPUT:
                wanted, within = self._pipeline.output.quiet_s, self._pipeline.drain_s
                because += f"; quiet_s asks for {wanted:g} s without a change, and {within:g} s (drain_s) had none"
                if isinstance(self._fault, NoFault):  # nothing has happened that it could come from
                    raise StageError(f"{because}, without any fault") from error
            self.history.write(kinds.DRAIN, phase="failed", stage=waiting.stage, because=because)
        except StageError as error:
            self.history.write(kinds.DRAIN, phase="failed", stage=error.stage or waiting.stage, because=str(error), at_once=True)
        else:
            self._drained(waiting)

    def _await_rest(self, waiting: Drain) -> None:
        """Wait until everything is at rest. Raises WaitTimeoutError where that takes too long; to offer the records does not."""
        while not waiting.over:
            offered = self._offered_so_far()
            wait_until(lambda: waiting.at_rest() or self._offered_so_far() > offered,   # noqa: B023
                       within_s=self._pipeline.drain_s + 1 / self._pipeline.pace,
                       because="the drain", poll_s=0.1)  # fmt: skip

    def _drained(self, waiting: Drain) -> None:
        self._check_anything_sent("before it ended")
        rested = math.inf if waiting.rest.why is Why.ENDED else waiting.rested
        # how long the first step takes is told by the run without a fault, in which nothing else is waited for
        first = longest_silence(self._loaded_at, self.sighted.moments()) if isinstance(self._fault, NoFault) else 0.0
        self.silences.learn(self.cell, max(waiting.gap, first), rested=rested, patiently=waiting.why is Why.PATIENCE)
        if self._tail:
            self.silences.learn_tail(self.cell)
        self.history.write(kinds.DRAIN, phase="completed", stage=None, because=None, tail=self._tail, **waiting.told())

    def observe(self) -> None:
        """Ask every authority: what was offered, acknowledged (by the wire), stored and recorded.

        How far it has got is asked first, then what is there, and the log last: where something still moves, what is past a
        position is found behind it, and what is in the output is in the log.
        """
        self._hold_back(None)
        saved = self._observe_positions()
        output = self._pipeline.output
        results = self.deployed.observer.log(output.topic) if output.kind is OutputKind.TOPIC else None
        rows = self._rows() if results is None else ()
        log = self.deployed.observer.log(self._pipeline.topic)
        for record in self._load.records:
            self.history.write(kinds.OFFERED, record=record.id, key=record.key, position=record.position)
        self.history.write(kinds.CURSOR, position=len(self._load.records) + 1, where=str(self._pipeline.input.kind))
        self._observe_acks()
        copies = self._observe_log(Hop.TOPIC, self._pipeline.topic, log, saved)
        if results is not None:
            self._observe_log(Hop.SINK, output.topic, results)
            found = [Result(self._ids_of(copy), copy.offset, _text_of(copy)) for copy in self._sorted(results.copies)]
        else:
            found = self._results_in(rows)
            self._check_ids("row of the output", found)
        if isinstance(self._fault, NoFault) and copies and not any(result.record in self._known for result in found):
            raise StageError(self._nothing_arrived())
        if isinstance(self._fault, NoFault):
            known = [result.text for result in found if result.record in self._known]
            self.deployed.columns.learn(name_of(self._pipeline), known)
        self._observe_results(found, copies)
        if self._watch is not None:
            self._watch.tell(self.history, self._so_far.of(kinds.CONN, kinds.FETCHED), self._load)

    def close(self) -> None:
        """End the processes, leave the wire. What fails keeps nothing else from its end, and is raised behind it."""
        if self._closed:
            return
        self._closed = True
        with ExitStack() as ends:  # the last comes first
            if self._on_wire:
                ends.callback(self.deployed.wire.close_cell, self.cell.id)
            ends.callback(self._lease.close)
            for node in reversed(self._nodes.values()):
                if node.started:
                    ends.callback(node.runtime.clear, self.cell.key)
                    ends.callback(node.kill)
            if self._holding:
                ends.callback(self._holding.close)
            if self._feeder:
                ends.callback(self._feeder.close)

    # --- what the drain asks -----------------------------------------------------------------------------------------

    def source_trouble(self) -> str | None:
        """Why not everything has been sent yet, or ``None``."""
        if self._feeder is None:
            return "nothing has been offered yet"
        if trouble := self._feeder.trouble():
            raise StageError(trouble)
        if not self._feeder.exhausted():
            return "not everything has been offered yet"
        producer = self._nodes.get(Role.PRODUCER)
        if producer is None or producer.ended() is not None:
            return None
        missing = len(self.offered - self.sighted.tried())
        if not missing or self._pipeline.input.kind is InputKind.HTTP or self.sighted.tried(since=producer.since):
            return None  # one that has sent once and sends no more, or has taken records over, is at rest
        return f"the producer has sent nothing since its start, and {missing} records of {len(self.offered)} were never sent"

    def send_trouble(self) -> str | None:
        """Which stage has sent something that is not answered yet, or ``None``."""
        for role, node in self._nodes.items():
            count = self.sighted.unanswered(role)
            if count and node.ended() is None:
                return f"{count} requests of the {role} are not answered yet"
        return None

    def unacknowledged(self) -> int:
        """How many records were sent by stages that live, and not acknowledged to them: they may send them again."""
        return sum(self.sighted.unacknowledged(role) for role, node in self._nodes.items() if node.ended() is None)

    def all_ended(self) -> bool:
        """Whether nobody is left who could do anything."""
        return all(node.ended() is not None for node in self._nodes.values())

    def stage_trouble(self) -> str | None:
        """Start again what has ended and should not have; say so, or ``None``. Raises StageError where that is in vain.

        Without a fault, nor may one process of a stage end and not be replaced; after one, its siblings may do its work. What is
        too large for the broker will be so in every cell.
        """
        if isinstance(self._fault, NoFault) and (refused := self._too_large()):
            raise StageError(refused, "topic")
        if isinstance(self._fault, NoFault) and (one := self._workers.missed()):
            raise self._nodes[one.role].error(
                f"has lost one of its processes: {one.pid} ({one.command}) ended by itself, without any fault, and no other took "
                f"its place in {REPLACED_S:g} s"
            )
        return next((trouble for node in self._nodes.values() if (trouble := node.supervise()) is not None), None)

    def _too_large(self) -> str | None:
        """Say which record the broker refuses for its size, if any. Of a batch of several, a client may send each by itself."""
        refused = self.sighted.refused(*TOO_LARGE)
        sent = [e for e in self._so_far.of(kinds.SENT) if e["request"] in refused] if refused else []
        batches = Counter((e["request"], e["topic"], e["partition"]) for e in sent)
        for event in sent:
            if batches[event["request"], event["topic"], event["partition"]] == 1:
                return (
                    f"the record {event['record']} is too large for {event['topic']}: the broker refuses it "
                    f"(MESSAGE_TOO_LARGE); let less than max.message.bytes be sent at once, 1048588 unless the broker says "
                    "otherwise, compressed or as a reference to where it lies"
                )
        return None

    def attribute(self) -> None:
        """Write down which process each new connection belongs to: one of its stage's, or a stranger, which voids the cell.

        One that is gone already is nobody's, and proves nothing. Where one that has fetched ends by itself, that is told at once.
        """
        new = self._so_far.events(self._attributed)
        self._attributed += len(new)
        for event in new:
            if event["event"] == kinds.FRAME and event["api"] == Api.FETCH.label and event["role"] in CONSUMING:
                if owner := self._owners.get(event["conn"]):
                    self._workers.note(event["role"], *owner)
                continue
            if event["event"] != kinds.CONN or event["phase"] != "open" or (stage := self._nodes.get(event["role"])) is None:
                continue
            of = {"conn": event["conn"], "role": event["role"]}
            if (pid := stage.owner(event["peer"])) is not None:
                self._owners[event["conn"]] = pid, stage.incarnation
                self.history.write(kinds.OWNER, **of, pid=pid, command=command_of(pid))
            elif (stranger := stage.stranger(event["peer"])) is not None:
                self.history.write(kinds.STRANGER, **of, pid=stranger[0], command=stranger[1])
        for one in self._workers.gone():
            stage = self._nodes[one.role]
            stage.say("gone", pid=one.pid, command=one.command)
            self.deployed.say(
                f"{self.cell.scenario.id}: a process of the {stage.name} has ended by itself: {one.pid} ({one.command})"
            )

    def log_trouble(self) -> str | None:
        """Which partition has an open transaction, or ``None``; how long one has had it is written down where that is long."""
        for topic in sorted({*self._pipeline.topics, *self.sighted.topics()}):
            for partition, ends in self.deployed.observer.ends(topic).items():
                if ends.stable != ends.end:
                    self._hold_back(f"{topic}/{partition}")
                    return f"{topic}/{partition}: last stable offset {ends.stable}, high watermark {ends.end}"
        self._hold_back(None)
        return None

    def _hold_back(self, log: str | None) -> None:
        """Note that readers of a log are held back by an open transaction; or that none are."""
        name, since = self._held_back
        if log == name:
            return
        if name is not None and (seconds := time.monotonic() - since) > HELD_BACK_S:
            self.history.write(kinds.HELD_BACK, log=name, seconds=round(seconds, 1))
        self._held_back = log, time.monotonic()

    def _position_trouble(self) -> str | None:
        if not self._keeps_position():
            return self._elsewhere_trouble()
        saved, self._tail = self._positions(), False
        last = self.deployed.observer.visible(self._pipeline.topic, {p: max(o - 1, 0) for p, o in saved.items()})
        if last and all(offset < 0 for offset in saved.values()):
            never = (
                f"no consumer group has ever saved a position in {self._pipeline.topic}; a program that keeps it "
                'anywhere else, or nowhere, is declared so by position = "elsewhere" in its stage'
            )
            if isinstance(self._fault, NoFault) and self._saves_none(last):
                raise StageError(never)
            return never
        behind = {partition: offset for partition, offset in last.items() if saved.get(partition, -1) <= offset}
        self._tail = bool(behind) and self._leaves(behind, saved)
        if self._tail:
            return None
        return next(
            (f"partition {p}: position {saved.get(p, -1)}, last record at {offset}" for p, offset in behind.items()), None
        )

    def _leaves(self, behind: Mapping[int, int], saved: Mapping[int, int]) -> bool:
        """Whether what no position is saved behind is a tail that is recorded, and nobody will save a position there.

        ``behind``: the last offset of each such partition. Of a pipeline that has left one without a fault it is known.
        """
        topic = self._pipeline.topic
        given = [e for e in self._so_far.of(kinds.FETCHED) if e["reached"] and e["topic"] == topic and self._lives(e["conn"])]
        if not was_given(behind, saved, given) or not (self.silences.leaves_tails(self.cell) or self._is_still(COMMITS_S)):
            return False
        try:
            return is_recorded(saved, given, self.results())
        except OutputError:
            return False

    def _lives(self, conn: int) -> bool:
        """Whether who was given something over a connection lives; where nobody knows who that is, whether it is open."""
        pid, _ = self._owners.get(conn, (None, 0))
        return self.sighted.is_open(conn) if pid is None else is_alive(pid)

    def _saves_none(self, last: Mapping[int, int]) -> bool:
        """Whether a reader that was given everything, and writes nothing more, has had its time to save a position.

        One that asks no group has none to save.
        """
        reached = self.sighted.reached(self._pipeline.topic)
        if any(reached.get(partition, -1) < offset for partition, offset in last.items()):
            return False
        reader = next(role for role in self._nodes if role in CONSUMING)
        return self._is_still(COMMITS_S if self.sighted.asked(reader, Api.FIND_COORDINATOR.label) else ASKS_NOBODY_S)

    def _is_still(self, patience_s: float) -> bool:
        """Whether nothing was seen of a record, and the output has not changed, for so long. To be asked again and again."""
        try:
            size = self.size()
        except OutputError as error:
            size = str(error)
        if size != self._written[0]:
            self._written = size, time.monotonic()
        return time.monotonic() - max(self._written[1], self.sighted.last / 1e9) > patience_s

    def _elsewhere_trouble(self) -> str | None:
        """Where nobody can ask for the position: whether the reader was given everything, and a restarted one anything.

        A reader that is given nothing for ELSEWHERE_S takes itself to have everything.
        """
        reader = next((node for role, node in self._nodes.items() if role in CONSUMING), None)
        if reader is None:
            return None
        topic = self._pipeline.topic
        at_work = reader.incarnation == 1 or self.sighted.given(topic) > reader.since
        reached = self.sighted.reached(topic)
        behind = [p for p, last in self.deployed.observer.visible(topic, {}).items() if reached.get(p, -1) < last]
        if not behind and at_work:
            return None
        if time.monotonic_ns() - max(self.sighted.last, reader.since) > ELSEWHERE_S * 1e9:
            return None
        return f"the {reader.name} has not read {f'partition {behind[0]} to its end' if behind else 'anything since its start'}"

    def position_trouble(self) -> str | None:
        """Which partition of any topic that is read has visible records at or above the position of its group, or ``None``."""
        return self._position_trouble() or self._lag_beside()

    def _lag_beside(self) -> str | None:
        """Which group is behind in another topic than the first, by which one program of a stage may feed the next, or ``None``.

        A group that saves nothing there, or has no member any more, is not waited for.
        """
        observer = self.deployed.observer
        for topic in sorted(self.sighted.read_topics() - {self._pipeline.topic}):
            for group in self._groups():
                saved = observer.positions(group, topic)
                last = observer.visible(topic, {p: max(o - 1, 0) for p, o in saved.items()}) if saved else {}
                behind = [p for p, offset in last.items() if saved.get(p, -1) <= offset]
                if behind and observer.members(group):
                    at = saved.get(behind[0], -1)
                    return f"{topic}/{behind[0]}: position {at} of {group}, last record at {last[behind[0]]}"
        return None

    def size(self) -> Any:
        """Return a value that changes while results arrive."""
        if self._results is not None:
            return self._results.size()
        return tuple(self.deployed.observer.ends(self._pipeline.output.topic).items())

    def results(self) -> Sequence[str | None]:
        """Return the id of every result that is in the output now. Raises OutputError."""
        if self._results is None:
            return [self._id_of(copy) for copy in self.deployed.observer.copies(self._pipeline.output.topic) if copy.visible]
        found = self._results_in(self._rows())
        left = {result.order for result in unfilled(found)}
        return [None if result.order in left else result.record for result in found]

    @property
    def offered(self) -> set[str]:
        """The ids of all records."""
        return set(self._known)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _values(self, role: Role) -> dict[str, object]:
        stage = self._pipeline.stage(role)
        return {
            "bootstrap": self.deployed.bootstrap(role), "work": self._work, "input": self._work / "input.txt",
            "topic": self._pipeline.topic, "port": self._lease.port,
            "python": IMAGES_PYTHON if stage is not None and stage.image else sys.executable,
            "here": self._pipeline.directory,
            **{f"jars:{name}": folder for name, folder in self.deployed.fetched.jars.items()},
        }  # fmt: skip

    def _node(self, stage: Stage) -> CommandNode:
        feeds = stage.role is Role.PRODUCER and self._pipeline.input.kind is InputKind.STDIN
        prints = self._pipeline.output.kind is OutputKind.STDOUT and stage is self._pipeline.stages[-1]
        return CommandNode(
            stage=stage, values=self._values(stage.role), runtime=self.deployed.runtime_of(stage), history=self.history,
            cell_key=self.cell.key, directory=self._pipeline.directory, log=self._log / f"{stage.role}.log",
            failpoints=self.directory / "failpoints", stdin=feeds, prints=prints, hint=lambda: self._hint(stage.role),
            fetches=lambda since: self.sighted.fetched(stage.role) > since, buried=lambda: self._expel(stage.role),
        )  # fmt: skip

    def _reader(self) -> Results | None:
        if self._pipeline.output.kind is OutputKind.TOPIC:
            return None
        last = self._pipeline.stages[-1].role
        return results_of(self._pipeline.output, self._values(last), self._pipeline.directory, self._log / f"{last}.log")

    def _make_feeder(self) -> Feeder:
        given, lines = self._pipeline.input, self.cell.lines()
        match given.kind:
            case InputKind.STDIN:
                return StdinFeeder(
                    self._nodes[Role.PRODUCER],
                    lines,
                    rate=self._pipeline.pace,
                    resend=self._pipeline.resend,
                    history=self.history,
                    so_far=self._so_far,
                    sighted=self.sighted,
                    waves=self._waves,
                )
            case InputKind.FILE:
                return FileFeeder(self._work / "input.txt", lines)
            case InputKind.HTTP:
                url = fill(given.url, self._values(Role.PRODUCER))
                return HttpFeeder(url, lines, rate=self._pipeline.pace, resend=self._pipeline.resend, history=self.history,
                                  waves=self._waves)  # fmt: skip
            case InputKind.OWN:
                return OwnFeeder()
            case InputKind.TOPIC:
                keyed = {record.id: (record.key, lines[record.id]) for record in self._load.records}
                return TopicFeeder(self.deployed.direct, given.topic, keyed, rate=self._pipeline.pace, history=self.history,
                                   waves=self._waves)  # fmt: skip

    def _hint(self, role: Role) -> str:
        """Say what the wire saw that may keep a stage from its work."""
        if any(e["role"] == role and e["api"] == "unknown" for e in self._so_far.of(kinds.UNDECODABLE)):
            return "it speaks no plaintext Kafka: a run's listeners have no TLS, let it use security.protocol=PLAINTEXT"
        if self.sighted.asked(role, SASL_HANDSHAKE):
            return "it wants SASL: a run's listeners have none, let it use security.protocol=PLAINTEXT"
        if not any(e["role"] == role for e in self._so_far.of(kinds.CONN)):
            at = self.deployed.bootstrap(role)
            if self._nodes[role].ended() is not None:
                return f"it had not sent a request to {at} yet"
            return f"it never sent a request to {at}: give it {{bootstrap}} by argument or environment"
        if not self.sighted.asked(role, Api.PRODUCE.label) and not self.sighted.fetched(role):
            way = "" if role in CONSUMING else f"does it read its input ({self._pipeline.input.kind}), or "
            return f"it is connected; {way}does it ask for another topic than {' and '.join(self._pipeline.topics)}?"
        return ""

    def _expel(self, role: Role) -> None:
        """Put the dead members of a stage's groups out, as their session time-out would, only sooner."""
        if role not in CONSUMING:
            return
        alone = sum(each in CONSUMING for each in self._nodes) == 1
        mine = self.sighted.groups(role)
        for group in self.deployed.ours(mine) if alone else sorted(mine & set(self.deployed.ours(mine))):
            if count := self.deployed.observer.expel(group):
                self.history.write(kinds.EXPELLED, group=group, members=count, role=role)

    def _groups(self) -> Sequence[str]:
        """Return the groups that are the pipeline's."""
        return self.deployed.groups({group for role in self._nodes for group in self.sighted.groups(role)})

    def _keeps_position(self) -> bool:
        reader = next((n.stage for r, n in self._nodes.items() if r in CONSUMING), None)
        return reader is not None and reader.position == "group"

    def _positions(self) -> dict[int, int]:
        """Return the lowest saved position of any group that has one in the topic; -1 where there is none."""
        found: dict[int, int] = {}
        for group in self._groups():
            for partition, offset in self.deployed.observer.positions(group, self._pipeline.topic).items():
                found[partition] = min(offset, found.get(partition, offset))
        return {p: found.get(p, -1) for p in range(self._pipeline.partitions)}

    def _hurry(self) -> None:
        if not isinstance(self._feeder, StdinFeeder):
            raise StageError("the end of the input cannot be brought about: it is not the producer's standard input")
        self._feeder.hurry()

    def _exhausted(self) -> bool:
        """Whether there is nothing to offer: nothing at all, or nothing before the fault is healed."""
        held = self._holding is not None and self._holding.holds and not self._has_fired()
        return self._feeder is not None and ((self._feeder.exhausted() and not held) or self._waves.waiting)

    def _has_fired(self) -> bool:
        return self._bench.has_fired

    def _has_stepped(self) -> bool:
        """Whether the step that the fault is at was seen once."""
        at = place_of(self._fault)
        if isinstance(at, OnWire) and at.api in STEPS:
            return self.sighted.stepped(at.role, STEPS[at.api])
        return self.sighted.stepped(at.role, kinds.FETCHED if at.role in CONSUMING else kinds.PRODUCE_ANSWER)

    def _moves(self) -> object:
        """What changes while anything moves."""
        return self.sighted.last, self._offered_so_far()

    def _progress(self) -> Any:
        return self.sighted.last, self._results.size() if self._results else None

    def _offered_so_far(self) -> int:
        return self._feeder.offered if self._feeder else 0

    # --- what the authorities say ------------------------------------------------------------------------------------

    def _id_of(self, copy: LogCopy) -> str | None:
        return self.cell.identity.find(copy.key, copy.value, copy.headers)

    def _ids_of(self, copy: LogCopy) -> Sequence[str]:
        return self.cell.identity.find_every(copy.key, copy.value, copy.headers)

    def _id_in(self, row: str) -> str | None:
        return next(iter(self._ids_in(row)), None)

    def _ids_in(self, text: str) -> Sequence[str]:
        """Every id in a row, or in the value of a record."""
        identity = self.cell.identity
        found = identity.every(text)
        if not found and self._pipeline.output.kind not in FREE_TEXT:
            return dataclasses.replace(identity, json="").every(text)
        return found

    def _rows(self) -> Sequence[str]:
        if self._results is None:
            return ()
        rows = [row for row in self._results.rows() if not row.startswith(NOTICE)]
        return [row for row in rows if self._id_in(row) is not None] if self._pipeline.output.kind in FREE_TEXT else rows

    def _results_in(self, rows: Sequence[str]) -> list[Result]:
        """Return what rows of the output are results of, and what they lack."""
        lacking = partial(self.deployed.columns.lacking, name_of(self._pipeline))
        return [Result(self._ids_in(row), order, row, lacking(row)) for order, row in enumerate(rows, start=1)]

    def _check_ids(self, what: str, found: Sequence[Result]) -> None:
        """Raise StageError where nothing of what was found carries an id that was offered, or something carries several."""
        for result in found:
            held = [record for record in result.ids if record in self._known]
            if len(held) > 1:
                raise StageError(
                    f"a {what} holds the ids of {len(held)} records ({', '.join(map(repr, held[:3]))}): {result.shown!r}; it "
                    "counts for one: let each have one of its own, or let the pattern in [id] find the one that is meant"
                )
        if not found or any(result.record in self._known for result in found):
            return
        first, identity = self._load.records[0], self._pipeline.id
        if identity is None:
            raise StageError(
                f"no {what} carries the id of a record: {found[0].shown!r} has nothing of the token that {{id}} stood for "
                f"({self.cell.in_hand(first)!r} in the first); let the programs pass it on, or say in [id] where an id is"
            )
        raise StageError(
            f"no {what} carries the id of a record: the pattern {identity.pattern!r}"
            f"{f' at {identity.json}' if identity.json else ''} in {identity.where} finds {found[0].record!r} in "
            f"{found[0].shown!r}, and what was offered is {first.id!r}; say in [id] where it is"
        )

    def _check_output_is_fresh(self) -> None:
        """Raise StageError where the output has results before anything was started: they would count as duplicates."""
        with contextlib.suppress(OutputError):  # it is not there yet
            if left := next((row for row in self._rows() if self._id_in(row) in self._known), None):
                raise StageError(
                    f"the output ({self._pipeline.output.kind}) has records of this run before it has begun, as "
                    f"{left[:120]!r}: let it be a place below {{work}}, which is new for every run, or empty it before each"
                )

    def _check_anything_sent(self, when: str) -> None:
        """Raise StageError where the producer has not sent one record."""
        producer = self._nodes.get(Role.PRODUCER)
        if producer is not None and not self.sighted.asked(Role.PRODUCER, Api.PRODUCE.label):
            raise producer.error(f"has sent nothing to {self._pipeline.topic} {when}")

    def _nothing_arrived(self) -> str:
        """Say that not one record is in the output although nothing was done to any, and what is there instead."""
        output, rows = self._pipeline.output, self._results.rows() if self._results else ()
        where = output.topic or fill(output.file, self._values(self._pipeline.stages[-1].role)) or " ".join(output.command)
        held = f"of its {len(rows)} lines none has an id, as {rows[-1][:120]!r}" if rows else "it holds nothing"
        if output.kind is OutputKind.STDOUT:
            held += f" ({UNPRINTED})"
        return f"not one record is in the output ({output.kind}{f' {where}' if where else ''}), without any fault: {held}"

    def _check_input(self, found: Sequence[str | None]) -> None:
        """Raise StageError where, without any fault, the input is not what the declaration says: nothing can be told of it.

        ``found``: the ids in the topic. What lostack has offered it knows; of what a producer makes itself, the topic tells.
        """
        own = self._pipeline.input.kind is InputKind.OWN
        counts = Counter(record for record in found if record is not None)
        for record, count in counts.items():
            if count > 1 and (own or record not in self._known):
                raise StageError(
                    f"the input has the id {record!r} {count} times: without a fault the producer has sent it as often; give "
                    "each record an id of its own, and let [id] find it"
                )
            if own and record not in self._known:
                ids = list(self._known)
                raise StageError(
                    f"the producer made a record {record!r}, and what the input's line says are {ids[0]!r} to {ids[-1]!r}: let "
                    f"it make those (records = {len(ids)}), or correct the line"
                )

    def _observe_acks(self) -> None:
        """Write what the wire saw as what the programs were told, at the time when it saw it."""
        sent = {(e["request"], e["record"]): e for e in self._so_far.of(kinds.SENT)}
        for event in self._so_far.of(kinds.PRODUCE_ANSWER):
            of = sent.get((event["request"], event["record"]))
            if of and event["error"] == 0 and event["reached"]:
                hop = "topic" if of["topic"] == self._pipeline.topic else "sink"
                self.history.write(
                    kinds.ACKED, t=event["t"], w=event["w"], hop=hop, record=event["record"], attempt=None,
                    partition=of["partition"], offset=event["offset"],
                )  # fmt: skip

    def _observe_log(self, hop: Hop, topic: str, log: WholeLog, saved: Mapping[int, int] | None = None) -> Sequence[LogCopy]:
        copies = log.copies
        results = [Result(self._ids_of(copy), copy.offset, _text_of(copy)) for copy in copies]
        self._check_ids(f"record of topic {topic}", results)
        if hop is Hop.TOPIC and isinstance(self._fault, NoFault):
            self._check_input([result.record for result, copy in zip(results, copies, strict=True) if copy.visible])
        for result, copy in zip(results, copies, strict=True):
            # without an id it is something else that its programs write; where that was a record's, the record is missing
            foreign = result.record is None and (hop is Hop.SINK or self._pipeline.id is None)
            self.history.write(
                kinds.STORED, hop=hop, topic=topic, **log.said_of(copy, saved),
                record=result.record, key=(copy.key or b"").decode("utf-8", "replace"), intact=result.record is not None,
                attempt=None, foreign=foreign, **self._shown(result),
            )  # fmt: skip
        for partition, ends in log.ends.items():
            if ends.start and topic == self._pipeline.topic:
                self._observe_deleted(partition, ends.start)
            self.history.write(kinds.LOG, hop=hop, topic=topic, partition=partition, start=ends.start, stable=ends.stable,
                               end=ends.end, last_data=log.last_visible(partition))  # fmt: skip
        return copies

    def _observe_deleted(self, partition: int, start: int) -> None:
        """Write the copies that the wire saw below the start of a log: retention, or somebody, has taken them since."""
        topic, so_far = self._pipeline.topic, self._so_far
        requests = {(e["request"], e["record"]) for e in so_far.of(kinds.SENT) if e["topic"] == topic
                    and e["partition"] == partition}  # fmt: skip
        answers = {(e["record"], e["offset"]) for e in so_far.of(kinds.PRODUCE_ANSWER) if e["error"] == 0
                   and (e["request"], e["record"]) in requests}  # fmt: skip
        fetched = {(e["record"], e["offset"]) for e in so_far.of(kinds.FETCHED) if e["topic"] == topic
                   and e["partition"] == partition}  # fmt: skip
        for record, offset in sorted(answers | fetched, key=lambda seen: seen[1]):
            if 0 <= offset < start:
                self.history.write(kinds.REMOVED, why=Removal.RETENTION, topic=topic, record=record, visible=True,
                                   **log_fields(partition, -1, offset))  # fmt: skip

    def _observe_positions(self) -> Mapping[int, int]:
        if self._keeps_position():
            saved, where = self._positions(), "group"
        else:  # nobody can ask: the declaration says that it keeps it elsewhere, and the drain that it is quiet
            ends = self.deployed.observer.ends(self._pipeline.topic)
            saved, where = {partition: end.end for partition, end in ends.items()}, "elsewhere"
        for partition, offset in saved.items():
            self.history.write(kinds.POSITION, partition=partition, offset=offset, where=where)
        return saved

    def _sorted(self, copies: Sequence[LogCopy]) -> list[LogCopy]:
        return sorted((copy for copy in copies if copy.visible), key=lambda copy: (copy.offset, copy.partition))

    def _shown(self, result: Result) -> dict[str, str]:
        """What is written down of something that was never offered."""
        return {} if result.record in self._known else {"text": result.shown}

    def _observe_results(self, found: Sequence[Result], copies: Sequence[LogCopy]) -> None:
        """Write every result. An output does not say which log copy it is made of: the n-th is taken to be of the n-th.

        What has no id, as a header or a footer, is no result; where it was one, and has lost its id, its record is missing.
        Nor is one that was begun and not filled in.
        """
        origins: Mapping[str | None, list[LogCopy]] = defaultdict(list)
        for copy in self._sorted(copies):
            origins[self._id_of(copy)].append(copy)
        seen: dict[str | None, int] = defaultdict(int)
        if unnamed := [result for result in found if result.record is None]:
            self.history.write(kinds.UNNAMED, count=len(unnamed), text=unnamed[0].shown)
        if left := unfilled(found):
            columns = sorted({number for result in left for number in result.lacks})
            self.history.write(kinds.UNFILLED, count=len(left), text=left[0].shown, columns=columns)
        for result in found:
            record = result.record
            if record is None or result in left:
                continue
            of = origins[record]
            origin = of[min(seen[record], len(of) - 1)] if of else None
            seen[record] += 1
            self.history.write(
                kinds.RECORDED, record=record, key=self._known[record].key if record in self._known else None, order=result.order,
                intact=True, attempt=None, **self._shown(result),
                **(log_fields(origin.partition, origin.epoch, origin.offset) if origin else log_fields(-1, -1, -1)),
            )  # fmt: skip
