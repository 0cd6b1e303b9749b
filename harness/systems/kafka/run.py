"""One cell on Kafka, step by step. Implements :class:`harness.interfaces.CellRun`."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kafka.errors import KafkaError

from harness.bench import NotFiredError
from harness.core import events as kinds
from harness.core.history import HISTORY, LOGS
from harness.core.places import log_fields
from harness.core.record import decode
from harness.core.scenario import Deployment, Predicted, RefusedByClient, Role
from harness.core.settings import SaveCursor, SavePosition
from harness.core.states import Hop
from harness.core.tail import SoFar
from harness.core.waiting import WaitTimeoutError, wait_until
from harness.postgres.program import NODE as DATABASE
from harness.programs.stage import SETTINGS_REFUSED, Stage
from harness.proofs.network import NetworkBad
from harness.sinks.opening import create_sink, open_sink
from harness.sources.outbox import Outbox
from harness.systems.kafka.bench import Idle, KafkaBench
from harness.systems.kafka.broker import INTER_BROKER
from harness.systems.kafka.nodes import ServerNode, StageNode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from harness.core.cell import Cell
    from harness.core.history import HistoryWriter
    from harness.sinks.interface import Sink
    from harness.systems.kafka.database import DatabaseServer
    from harness.systems.kafka.network import CellNetwork
    from harness.systems.kafka.observer import LogCopy, Placement, WholeLog
    from harness.systems.kafka.system import KafkaDeployed

DRAIN_S = 90.0
"""How long the drain may take: more than transaction time-out and the broker's clean-up interval together."""
STANDS_S = 6.0
"""How long nothing may happen in a cell that must stand still, before it counts as stuck: nobody waits for the deadline."""
QUIET_S = 0.2
"""How long the sink must not change for the drain to be complete."""
STAGE_END_S = 20.0


class KafkaCellRun:
    """The run of one cell."""

    bench_class: type[KafkaBench] = KafkaBench
    placement: Placement | None = None

    def __init__(self, deployed: KafkaDeployed, cell: Cell, directory: Path, history: HistoryWriter) -> None:
        self.deployed = deployed
        self.cell = cell
        self.history = history
        self._volley = deployed.volley
        self.directory = directory
        self._fault: Any = cell.scenario.fault
        self._load = cell.load()
        self._topic_sink = cell.scenario.pipeline.to_topic
        self._refused = isinstance(cell.expectation, RefusedByClient)
        self._stands = isinstance(cell.expectation, Predicted) and cell.expectation.left.must_show()
        key = cell.key
        self._topics = Topics(f"{key}.in", f"{key}.out", f"{key}.cursor")
        self._group = f"{key}.group"
        self._so_far = SoFar(directory / HISTORY)
        self._producer = self._stage(Role.PRODUCER, "producer")
        self._consumers = self._consuming_stages()
        self._bench = self.bench_class(
            deployed=deployed, cell=cell, load=self._load, history=history, events=directory / HISTORY,
            so_far=self._so_far, failpoints=directory / "failpoints",
            topics=(self._topics.source, *self._used_topics()[1:]), group=self._group,
            stages=(self._producer, *self._consumers), broker=self._broker_node(), database=self._database_node(),
            newcomer=self._newcomer, substitute=self._substitute,
            progress=self._progress, settled=lambda: self.position_trouble() is None, exhausted=self._exhausted,
            make_topics=self._make_topics,
        )  # fmt: skip
        self._replaced: tuple[StageNode, ...] = ()
        self._db: Sink | None = None
        self._closed = False
        self._on_wire = False
        self._network: CellNetwork | None = None

    # --- the steps ---------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Topics, outbox, sink, wire; then the consuming side, ready; then the fault, armed."""
        self.prepare_ground()
        if not self.cell.scenario.consumer_starts_after_fault and not self._refused:
            self._start_consumers()
        self._fault.arm(self._bench)

    def prepare_ground(self) -> None:
        """Wire, topics, outbox, sink."""
        (self.directory / LOGS).mkdir(parents=True, exist_ok=True)
        self._open_on_wire()
        self._make_topics()
        if self.cell.settings.consumer.reset != "earliest":
            beginning = dict.fromkeys(range(self.cell.settings.topic.partitions), 0)
            self.deployed.observer.save_positions(self._group, self._topics.source, beginning)
        Outbox.create(self._outbox, self._load.records)
        if server := self._database_server():
            server.create(self.cell.key)
        create_sink(self._sink_address)
        self._db = open_sink(self._sink_address, name="observer")

    def _open_on_wire(self) -> None:
        """Begin to record: before there are topics, for a follower may ask for the first record of one at once, and wait."""
        # broker to broker: no client id tells whose that is, so the cell that has the brokers to itself claims the routes
        scenario = self.cell.scenario
        alone = scenario.deployment is not Deployment.SHARED and not scenario.together
        claimed = self.deployed.routes(INTER_BROKER) if alone else ()
        self.deployed.wire.open_cell(self.cell.id, self.cell.key, self.directory / HISTORY / "wire.jsonl",
                                     routes=[route.name for route in claimed])  # fmt: skip
        self._on_wire = True
        if need := self._fault.evidence().proof(NetworkBad):
            self._network = self._bench.network = self.deployed.network(self.cell, self.history, need.roles)

    def load(self) -> None:
        """Start the producer."""
        self._producer.start()

    def inject(self) -> None:
        """Let the fault do its work."""
        try:
            with suppress(NotFiredError):
                self._fault.inject(self._bench)
        finally:
            self._volley.leave(self.cell.id)
        if self.cell.scenario.consumer_starts_after_fault and not self._refused:
            self._start_consumers()

    def drain(self) -> None:
        """Wait until everything is at rest."""
        self.history.write(kinds.DRAIN, phase="begun", stage=None, because=None)
        self._bench.disarm()
        if self._refused:
            end = self._producer.await_end(STAGE_END_S)
            refused = end is not None and end.status == SETTINGS_REFUSED
            self._drained(None if refused else "the client took the settings")
            return
        waiting = _Drain(self)
        still = Idle(self._progress, lambda: self._producer.ended() is not None, STANDS_S)

        def over() -> bool:
            return waiting.at_rest() or (self._stands and still.over())

        try:
            wait_until(over, within_s=DRAIN_S, because="the drain", poll_s=0.05)
        except WaitTimeoutError:
            self._drained(waiting.because, stage=waiting.stage)
        except StageEndedError as error:
            self._drained(str(error), stage=waiting.stage)
        else:
            self._drained(None) if waiting.rests else self._drained(waiting.because, stage=waiting.stage)

    def observe(self) -> None:
        """Ask every authority: how far it has got first, then what is there, and the log last.

        Where something still moves, what is past a cursor or a position is found behind it, and what is in the sink in the log.
        """
        self._observe_source()
        saved = self.saved_positions()
        for partition, offset in saved.items():
            self.history.write(kinds.POSITION, partition=partition, offset=offset, where=self.cell.settings.consumer.position)
        self._observe_sink()
        self._observe_log(Hop.TOPIC, self._topics.source, saved)

    def close(self) -> None:
        """End the processes, leave the wire. What fails keeps nothing else from its end, and is raised behind it."""
        if self._closed:
            return
        self._closed = True
        self._volley.leave(self.cell.id)
        with ExitStack() as ends:  # the last comes first
            if self._db:
                ends.callback(self._db.close)
            if self._network:
                ends.callback(self._network.close)
            if self._on_wire:
                ends.callback(self.deployed.wire.close_cell, self.cell.id)
            for stage in reversed((self._producer, *self._consumers, *self._replaced)):
                if stage.started:
                    ends.callback(stage.kill)

    # --- what the drain asks -----------------------------------------------------------------------------------------

    def source_trouble(self) -> str | None:
        """Why the source is not exhausted yet, or ``None``."""
        end = self._producer.ended()
        if end is None:
            return "the producer has not sent everything yet"
        if end.status != 0:
            raise StageEndedError(f"the producer ended with {end} before the source was exhausted")
        return None

    def stage_trouble(self) -> str | None:
        """Find no trouble, or raise StageEndedError where a consuming stage has ended although it should go on."""
        for stage in self._consumers:
            if stage.started and (end := stage.ended()) is not None:
                raise StageEndedError(f"the {stage.name} ended with {end}")
        return None

    def log_trouble(self) -> str | None:
        """Which partition has an open transaction, or ``None``."""
        for topic in self._used_topics():
            for partition, ends in self.deployed.observer.ends(topic).items():
                if ends.stable != ends.end:
                    return f"{topic}/{partition}: last stable offset {ends.stable}, high watermark {ends.end}"
        return None

    def position_trouble(self) -> str | None:
        """Which partition has visible records at or above the saved position, or ``None``."""
        saved = self.saved_positions()
        last = self.deployed.observer.visible(self._topics.source, {p: max(o - 1, 0) for p, o in saved.items()})
        for partition, offset in last.items():
            if saved.get(partition, -1) <= offset:
                return f"partition {partition}: position {saved.get(partition, -1)}, last record at {offset}"
        return None

    def sink_trouble(self) -> str | None:
        """Which transactions of others may yet change the sink, or ``None``."""
        left = 0 if self._topic_sink else self._database().unsettled()
        return f"{left} transactions are open in the database" if left else None

    def saved_positions(self) -> dict[int, int]:
        """Return the saved position per partition, from wherever this semantic keeps it; -1 where there is none."""
        if self.cell.settings.consumer.position is SavePosition.WITH_RESULT:
            found = self._database().positions()
        else:
            found = self.deployed.observer.positions(self._group, self._topics.source)
        return self._every_partition(found)

    def _every_partition(self, found: Mapping[int, int]) -> dict[int, int]:
        """Return positions by partition, of all that the topic has; -1 where there is none."""
        return {p: found.get(p, -1) for p in range(self.cell.settings.topic.partitions + self._bench.added)}

    def sink_size(self) -> Any:
        """Return a value that changes while the sink is not quiet."""
        if self._topic_sink:
            return tuple(self.deployed.observer.ends(self._topics.sink).items())
        return self._database().size()

    # --- inside ------------------------------------------------------------------------------------------------------

    @property
    def _outbox(self) -> Path:
        return self.directory / "outbox.sqlite"

    @property
    def _sink_address(self) -> str:
        """Where the harness finds the sink."""
        server = self._database_server()
        return str(self.directory / "sink.sqlite") if server is None else server.direct(self.cell.key)

    @property
    def _stage_sink(self) -> str:
        """Where the programs find it: a server, through the wire."""
        server = self._database_server()
        return self._sink_address if server is None else server.by_wire(self.cell.key)

    def _database_server(self) -> DatabaseServer | None:
        return self.deployed.database() if self.cell.scenario.pipeline.on_server else None

    def _database(self) -> Sink:
        if self._db is None:
            raise RuntimeError("the sink is not open")
        return self._db

    def _stage(self, role: Role, name: str) -> StageNode:
        stage = Stage(
            cell=self.cell.id, key=self.cell.key, name=name, incarnation=0, bootstrap=self.deployed.bootstrap(role),
            topic_in=self._topics.source, topic_out=self._topics.sink, topic_cursor=self._topics.cursor, group=self._group,
            outbox=str(self._outbox), sink=self._stage_sink, history=str(self.directory / HISTORY),
            settings=self.cell.settings, pipeline=self.cell.scenario.pipeline, jitter_ms=self._load.jitter_ms,
            seed=self.cell.seed, client=self.deployed.adapter(self.cell),
            transactional_id=f"{self.cell.key}-{name}",
        )  # fmt: skip
        return StageNode(role, f"harness.programs.{role}", stage, self.deployed.runtime, self.history, self._so_far,
                         self.directory / LOGS, self.directory / "failpoints",
                         client=self.deployed.clients.get(self.cell.client))  # fmt: skip

    def _consuming_stages(self) -> tuple[StageNode, ...]:
        role = Role.PROCESSOR if self._topic_sink else Role.CONSUMER
        count = self.cell.settings.consumer.count
        names = [str(role)] if count == 1 else [f"{role}-{n}" for n in range(1, count + 1)]
        return tuple(self._stage(role, name) for name in names)

    def _substitute(self) -> tuple[StageNode, StageNode]:
        """Put another producer in the place of the first: with its transactional id, unless each has its own."""
        first = self._producer
        name = "producer-2"
        transactional_id = f"{self.cell.key}-{name}" if self.cell.settings.producer.own_id else first.stage.transactional_id
        stage = replace(first.stage, name=name, incarnation=0, transactional_id=transactional_id)
        self._producer = replace(first, stage=stage, node=None)
        self._replaced = (*self._replaced, first)
        return first, self._producer

    def _newcomer(self, role: Role) -> StageNode:
        """Return one more process of the consuming side."""
        stage = self._stage(role, f"{role}-{len(self._consumers) + 1}")
        self._consumers = (*self._consumers, stage)
        return stage

    def _broker_node(self) -> ServerNode | None:
        if not self.cell.scenario.deployment.alone:
            return None
        deployed, cell, volley = self.deployed, self.cell.id, self._volley
        kill, restart = partial(volley.die, cell, deployed.kill_broker), partial(volley.come_back, cell, deployed.restart_broker)
        return ServerNode(self.history, deployed.broker_process, kill, restart)

    def _database_node(self) -> ServerNode | None:
        server = self._database_server()
        if server is None or self.cell.scenario.deployment is Deployment.SHARED:
            return None

        def restart() -> None:
            server.restart()
            self._database().reconnect()

        return ServerNode(self.history, server.process, server.kill, restart, name=DATABASE, role=Role.DATABASE)

    def _used_topics(self) -> tuple[str, ...]:
        used = [self._topics.source]
        if self._topic_sink:
            used.append(self._topics.sink)
        if self.cell.settings.producer.cursor is SaveCursor.IN_TRANSACTION:
            used.append(self._topics.cursor)
        return tuple(used)

    def _make_topics(self) -> None:
        topic = self.cell.settings.topic
        config = {} if topic.flush_messages is None else {"flush.messages": str(topic.flush_messages)}
        if topic.replicas > 1:
            config |= {"min.insync.replicas": str(topic.min_insync), "unclean.leader.election.enable": str(topic.unclean).lower()}
        sizes = {self._topics.cursor: 1}
        wanted = {name: (sizes.get(name, topic.partitions), config) for name in self._used_topics()}
        self.deployed.observer.create_topics(wanted, self.placement)

    def _start_consumers(self) -> None:
        for stage in self._consumers:
            stage.start()
        for stage in self._consumers:
            stage.await_ready()

    def _exhausted(self) -> bool:
        return self._producer.started and self._producer.ended() is not None

    def _progress(self) -> Any:
        return {by: count for by, count in self._so_far.lines().items() if by != "wire"}

    def _drained(self, because: str | None, stage: str | None = None) -> None:
        phase = "completed" if because is None else "failed"
        self.history.write(kinds.DRAIN, phase=phase, stage=stage, because=because)

    # --- what the authorities say ------------------------------------------------------------------------------------

    def _observe_source(self) -> None:
        for record in self._load.records:
            self.history.write(kinds.OFFERED, record=record.id, key=record.key, position=record.position)
        in_topic = self.cell.settings.producer.cursor is SaveCursor.IN_TRANSACTION
        if in_topic:
            log = self.deployed.observer.log(self._topics.cursor)
            self._tell_ends(Hop.CURSOR, self._topics.cursor, log)
            written = [c for c in log.copies if c.visible]
            position = int(written[-1].value or b"1") if written else 1
        else:
            outbox = Outbox(self._outbox)
            position = outbox.cursor()
            outbox.close()
        self.history.write(kinds.CURSOR, position=position, where="topic" if in_topic else "outbox")

    def _observe_log(self, hop: Hop, topic: str, saved: Mapping[int, int] | None = None) -> tuple[LogCopy, ...]:
        log = self.deployed.observer.log(topic)
        for copy in log.copies:
            payload = decode(copy.value)
            ours = payload is not None and payload.cell_key == self.cell.key
            self.history.write(
                kinds.STORED, hop=hop, topic=topic, **log.said_of(copy, saved),
                record=payload.record if payload and ours else None, key=_text(copy.key),
                intact=bool(payload and ours and payload.intact), attempt=copy.attempt,
            )  # fmt: skip
        self._tell_ends(hop, topic, log)
        return log.copies

    def _tell_ends(self, hop: Hop, topic: str, log: WholeLog) -> None:
        for partition, ends in log.ends.items():
            self.history.write(kinds.LOG, hop=hop, topic=topic, partition=partition, start=ends.start, stable=ends.stable,
                               end=ends.end, last_data=log.last_visible(partition))  # fmt: skip

    def _observe_sink(self) -> None:
        if self._topic_sink:
            self._observe_topic_sink(self._observe_log(Hop.SINK, self._topics.sink))
        else:
            self._observe_database()

    def _observe_topic_sink(self, copies: Sequence[LogCopy]) -> None:
        for copy in copies:
            if copy.visible:
                origin = [int(word) for word in copy.origin.split(".")] if copy.origin else [-1, -1, -1]
                self._recorded(copy.value, _text(copy.key), copy.offset, origin, copy.attempt)

    def _observe_database(self) -> None:
        self._observe_settled()
        for order, value, key, copy in self._database().results():
            self._recorded(value, key, order, [copy.partition, copy.epoch, copy.offset], None)
        for record, copy in self._database().absorbed():
            self.history.write(kinds.ABSORBED, record=record, **log_fields(copy.partition, copy.epoch, copy.offset))
        self._observe_settled()

    def _observe_settled(self) -> None:
        if self.cell.scenario.pipeline.on_server:
            self.history.write(kinds.SETTLED, open=self._database().unsettled())

    def _recorded(self, value: bytes | None, key: str | None, order: int, origin: list[int], attempt: str | None) -> None:
        payload = decode(value)
        ours = payload is not None and payload.cell_key == self.cell.key
        self.history.write(
            kinds.RECORDED, record=payload.record if payload and ours else None, key=key, order=order,
            intact=bool(payload and ours and payload.intact), attempt=attempt,
            **log_fields(origin[0], origin[1], origin[2]),
        )  # fmt: skip


class StageEndedError(Exception):
    """A stage has ended by itself: no drain can complete any more."""


@dataclass(frozen=True, slots=True)
class Topics:
    """The names of a cell's topics; they begin with its key."""

    source: str
    sink: str
    cursor: str


class _Drain:
    """Goes through the conditions of the drain in order, and remembers the first that does not hold."""

    def __init__(self, run: KafkaCellRun) -> None:
        self._run = run
        self._checks: tuple[tuple[str, Callable[[], str | None]], ...] = (
            ("source", run.source_trouble),
            ("consumer", run.stage_trouble),
            ("topic", run.log_trouble),
            ("position", run.position_trouble),
            ("database", run.sink_trouble),
        )
        self.stage = "source"
        self.because = ""
        self.rests = False
        self._size: Any = None

    def at_rest(self) -> bool:
        self.rests = self._rests()
        return self.rests

    def _rests(self) -> bool:
        size = self._run.sink_size()
        moved, self._size = size != self._size, size
        for stage, check in self._checks:
            if moved and stage == "topic":  # while results arrive, asking the broker would only cost
                self.stage, self.because = "sink", "the sink is not quiet"
                return False
            self.stage = stage
            try:
                trouble = check()
            except (KafkaError, WaitTimeoutError) as error:
                trouble = f"the observer was not answered: {error}"
            if trouble:
                self.because = trouble
                return False
        return self._quiet()

    def _quiet(self) -> bool:
        before = self._run.sink_size()
        self.stage, self.because = "sink", "the sink is not quiet"
        try:
            wait_until(lambda: self._run.sink_size() != before, within_s=QUIET_S, because="the sink to stay quiet", poll_s=0.05)
        except WaitTimeoutError:
            return True
        return False


def _text(data: bytes | None) -> str | None:
    return data.decode("ascii", "replace") if data is not None else None
