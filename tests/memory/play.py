"""Simulate one cell: the common part of a log and a queue between producer and consumer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from harness.judge.firing import SIGKILL
from harness.judge.signs import (
    ABORTED,
    ABSORBED,
    DELIVERED_AGAIN,
    NOT_RESENT,
    REPEATED_REQUEST,
    RESUMED_PAST,
    SENT_ANEW,
    TAKEN_AGAIN,
)
from harness.model import events as kinds
from harness.model.events import DrainPhase
from harness.model.history import HISTORY, SUFFIX, HistoryWriter, Line
from harness.model.plan import plan_of
from harness.model.scenario import Role
from harness.model.states import LastHop
from harness.model.writing import LedgerWriter
from harness.proofs.network import Effect, NetworkBad
from harness.stages.settings import TOPIC_TO_TOPIC
from tests.memory.plants import Cast, Plant, cast_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from harness.model.cell import Cell
    from harness.model.places import Waiting
    from harness.model.record import Record
    from harness.model.sign import Sign

Where: TypeAlias = dict[str, Any]
"""The fields of a history line that say where a copy is, or where a record goes."""

OUTBOX = "outbox"
NOT_STORED = (LastHop.SENT, LastHop.ACKED)
"""The hops at which a sent record is lost without ever being stored."""


@dataclass
class Copy:
    """One copy of a record that the broker has or had."""

    record: str
    attempt: str | None
    where: Where
    """The fields of a history line that give its place."""
    visible: bool
    spare: bool
    """Whether the sink absorbs it because another copy of the record is recorded."""
    queue: str | None = None
    """The name of its queue; ``None`` in a log."""
    waiting: Waiting | None = None
    """What it waits for in its queue; in a log that follows from the offsets."""


class Scribe:
    """Writes the history of a real cell: programs, wire and failpoints into their own files, all
    else into the runner's.
    """

    def __init__(self, cell: Cell, directory: Path, history: HistoryWriter) -> None:
        self._cell = cell
        self._directory = directory / HISTORY
        self._history = history
        self._writers: dict[str, LedgerWriter] = {}
        self._incarnations: Counter[Role] = Counter()

    def incarnation(self, role: Role) -> str:
        """Return the writer's name of the present or last incarnation of a role."""
        return f"{role}-{self._incarnations[role]}"

    def tell(self, by: str, event: str, **fields: object) -> None:
        """Write a line into the file of its writer."""
        if by not in self._writers:
            self._writers[by] = LedgerWriter(
                self._directory / f"{by}{SUFFIX}", cell=self._cell.id, by=by
            )
        self._writers[by].write(event, **fields)

    def fault(self, phase: str, **fields: object) -> None:
        """Write a line of the fault."""
        told = {"phase": phase, "fault": self._cell.scenario.fault.id, **fields}
        self._history.write(Line(kinds.FAULT, told))

    def start(self, role: Role) -> None:
        """Write that the next incarnation of a role started and is ready."""
        self._incarnations[role] += 1
        self.node(role, "started")
        self.node(role, "ready")

    def node(self, role: Role, phase: str, **fields: object) -> None:
        """Write an event of a role's node."""
        number = self._incarnations[role]
        told = {"node": str(role), "role": role, "incarnation": number, "phase": phase}
        self._history.write(Line(kinds.NODE, {**told, "pid": number, **fields}))

    def exit(self, role: Role, *, status: int | None = None, signal: int | None = None) -> None:
        """Write that a role's node ended."""
        self.node(role, "exited", status=status, signal=signal)

    def close(self) -> None:
        """Close the history files."""
        for writer in self._writers.values():
            writer.close()
        self._writers = {}


class MemoryCellRun(ABC):
    """The simulated run of one cell. Implements :class:`harness.interfaces.CellRun`."""

    between: ClassVar[str]
    """The name of the topic or queue."""
    nowhere: ClassVar[Where]
    """The place fields of a result that names no copy."""
    stalled: ClassVar[tuple[str, str]]
    """The stage of the drain that fails for an open transaction, and its reason."""
    unread: ClassVar[tuple[str, str]]
    """The stage of the drain that fails when the consumer stops reading, and its reason."""
    loses_at: ClassVar[Collection[LastHop]]
    """The hops at which the broker itself loses a record, so that it is not consumed like the
    others.
    """

    def __init__(self, cell: Cell, directory: Path, history: HistoryWriter, plant: Plant) -> None:
        self.cell = cell
        self.plan = plan_of(cell)
        self.plant = plant
        self.copies: list[Copy] = []
        self.cast = Cast()
        self._history = history
        self._scribe = Scribe(cell, directory, history)
        self._numbers: Counter[str] = Counter()
        self._rows: list[Copy] = []
        self._absorbed_copies: list[Copy] = []
        self._cursor = 1
        load = cell.load()
        self._records, self._target = load.records, load.target
        topic_to_topic = self.plan.pipeline == TOPIC_TO_TOPIC.name
        self._reading = Role.PROCESSOR if topic_to_topic else Role.CONSUMER

    # --- the steps --------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Choose the parts of the records, and start the nodes."""
        self.cast = cast_of(self.plan, self.plant, self._records)
        for role in (Role.BROKER, Role.PRODUCER, self._reading):
            self._scribe.start(role)
        if self.plant.unhealthy:
            self._scribe.exit(self._reading, status=1)
            self._scribe.start(self._reading)
        self._resumed(1)
        self._scribe.fault("armed")

    def load(self) -> None:
        """Let the records before the target flow, or all records if nothing is to move after the
        fault.
        """
        if self.plan.refused_by_client:
            self._scribe.tell(
                self._producer,
                kinds.STOPPED,
                because="the client refused these settings",
                kind="settings",
            )
            return
        for record in self._records:
            if self.plant.no_load or record.position < self._target.position:
                self._flow(record)

    def inject(self) -> None:
        """Fire the fault with the target on its way, then let the remaining records flow."""
        if self.plan.refused_by_client:
            return
        if self.plant.no_load:
            self._fire()
            return
        self._send(self._target)
        self._fire()
        self._show_sign()
        self.consume(self._target)
        for record in self._records:
            if record.position > self._target.position:
                self._flow(record)

    def drain(self) -> None:
        """Write how the drain ended."""
        self._history.write(kinds.Drain(phase=DrainPhase.BEGUN))
        if self.plant.cut_drain:
            return
        stage, because = (
            self.stalled if self.cast.stalled else self.unread if self.cast.unread else (None, None)
        )
        phase = DrainPhase.FAILED if stage else DrainPhase.COMPLETED
        self._history.write(kinds.Drain(phase=phase, stage=stage, because=because))

    def observe(self) -> None:
        """Write what the authorities say at the end."""
        for record in self._records:
            self.observed("offered", record=record.id, key=record.key, position=record.position)
        self.observed("cursor", position=self._cursor, where=OUTBOX)
        self.observe_broker()
        self._observe_sink()

    def close(self) -> None:
        """Close the history files."""
        self._scribe.close()

    # --- what differs between a log and a queue ---------------------------------------------------

    @abstractmethod
    def aim(self, record: Record) -> Where:
        """Return the fields of a request's line that say where a record goes, besides the topic's
        or queue's name.
        """

    @abstractmethod
    def store(
        self, record: Record, attempt: str | None, *, visible: bool, spare: bool = False
    ) -> None:
        """Store one more copy of a record."""

    @abstractmethod
    def lose(self, record: Record, attempt: str, hop: LastHop) -> None:
        """Lose a record in the broker, at one of the hops of :attr:`loses_at`."""

    @abstractmethod
    def forget(self) -> None:
        """Lose unflushed data."""

    @abstractmethod
    def observe_broker(self) -> None:
        """Write what the observer says about the copies."""

    @abstractmethod
    def acknowledge(self, copy: Copy) -> None:
        """Tell the broker that the consumer has processed a copy."""

    # --- the way of a record ----------------------------------------------------------------------

    def _flow(self, record: Record) -> None:
        if record.id not in self.cast.untaken:
            self._send(record)
            self.consume(record)

    def _send(self, record: Record) -> None:
        """Take a record from the source, send it and store it, as its part requires."""
        part = self.cast.lost.get(record.id)
        self._cursor = record.position + 1
        self._scribe.tell(self._producer, kinds.TAKEN, record=record.id)
        if part is LastHop.NEVER_SENT:
            return
        if part is LastHop.ABORTED:
            self._abort(record, visible=False)
            return
        if record.id in self.cast.resurrected:
            self._abort(record, visible=True)
        if record.id in self.cast.torn:
            self._tear(record)
        attempt = self._attempt()
        self._sent(record, attempt)
        if part is not None and part in self.loses_at:
            self.lose(record, attempt, part)
        elif part not in NOT_STORED:
            for time in range(self.cast.stored_twice.get(record.id, 1)):
                if time:
                    self._sent(record, attempt)
                self.store(record, attempt, visible=record.id not in self.cast.stalled)
        uncertain = part is LastHop.SENT or (record is self._target and self.shows(NOT_RESENT))
        self._scribe.tell(
            self._producer,
            kinds.UNKNOWN if uncertain else kinds.ACKED,
            record=record.id,
            attempt=attempt,
            hop="topic",
            **({"error": "Timeout"} if uncertain else {}),
        )

    def _abort(self, record: Record, *, visible: bool) -> None:
        """Make an attempt in an aborted transaction, which a broken system shows (``visible``)."""
        attempt = self._attempt()
        self._transaction(attempt, "begun")
        self._sent(record, attempt)
        self.store(record, attempt, visible=visible, spare=True)
        self._transaction(attempt, "aborted")

    def _tear(self, record: Record) -> None:
        """Make two attempts in one transaction, of which one is visible."""
        attempt = self._attempt()
        self._transaction(attempt, "begun")
        for one, visible in ((attempt, True), (f"{attempt}2", False)):
            self._sent(record, one)
            self.store(record, one, visible=visible, spare=True)
        self._transaction(attempt, "unknown")

    def consume(self, record: Record) -> None:
        """Deliver and record the visible copies of a record, as its part requires."""
        part = self.cast.lost.get(record.id)
        if record.id in self.cast.unread or part is LastHop.SKIPPED or part in self.loses_at:
            return
        for copy in [copy for copy in self.copies if copy.record == record.id and copy.visible]:
            for time in range(self.cast.delivered_twice.get(record.id, 1)):
                self.delivered(copy, again=time > 0)
                if copy.spare or (
                    self.plant.absorbs and any(row.record == record.id for row in self._rows)
                ):
                    self._absorbed_copies.append(copy)
                elif part is not LastHop.DELIVERED:
                    self._rows.append(copy)
            self.acknowledge(copy)

    def _show_sign(self) -> None:
        """Write the sign that the protection worked on the target, if the plan requires one."""
        sent = next((copy for copy in self.copies if copy.record == self._target.id), None)
        ways: dict[Sign, Callable[[], None]] = {
            TAKEN_AGAIN: lambda: self._scribe.tell(
                "producer-again", kinds.TAKEN, record=self._target.id
            ),
            ABORTED: lambda: self._abort(self._target, visible=False),
            RESUMED_PAST: lambda: self._resumed(self._target.position + 1),
        }
        if sent is not None:
            ways |= {
                REPEATED_REQUEST: lambda: self._sent(self._target, str(sent.attempt)),
                SENT_ANEW: lambda: self._sent(self._target, self._attempt()),
                DELIVERED_AGAIN: lambda: self.delivered(sent),
                ABSORBED: lambda: self._absorbed_copies.append(sent),
            }
        for sign, show in ways.items():
            if self.shows(sign):
                show()

    def shows(self, sign: Sign) -> bool:
        """Say whether this run shows a sign."""
        return self.plan.sign == sign and not self.plant.hide_sign and not self.plant.disarm

    # --- the fault --------------------------------------------------------------------------------

    def _fire(self) -> None:
        """Hit the trigger, kill or pause the victims, and bring them back."""
        evidence = self.plan.evidence
        if evidence.trigger == "none" or self.plant.disarm:
            return
        if evidence.trigger == "rule":
            self._scribe.tell(
                "wire", kinds.RULE, rule="fault", phase="hit", records=[self._target.id]
            )
        else:
            self._scribe.tell(
                "failpoint",
                kinds.FAILPOINT,
                name="here",
                record=self._target.id,
                hit=1,
                action="kill",
                pid=1,
            )
        self._scribe.fault("fired", record=self._target.id)
        killed = (self._other_victim(),) if self.plant.wrong_victim else evidence.killed
        for role in killed:
            self._scribe.exit(role, signal=SIGKILL)
        for role in evidence.paused:
            self._scribe.node(role, "paused")
        if evidence.forgotten:
            self.forget()
            self._scribe.fault("forgot", file=self.between)
        if (network := self.cell.scenario.fault.evidence().proof(NetworkBad)) is not None:
            self._bad_network(network)
        for role in killed:
            self._scribe.start(role)
        for role in evidence.paused:
            self._scribe.node(role, "resumed")
        self._scribe.fault("healed")

    def _bad_network(self, need: NetworkBad) -> None:
        """Write the effect on the network, exactly as much as required; none with
        ``network_idle``.
        """
        shown = 0.0 if self.plant.network_idle else need.limit
        counts = {
            "sent": 1000,
            "answers": 0 if need.effect is Effect.SILENT and not self.plant.network_idle else 10,
            "reads": 10 * shown,
            "lost": shown,
            "longest_s": shown,
            "rate": shown or 10 * need.limit,
        }
        for role in [*need.roles] * need.times:
            told = {"role": role, "node": "broker", "toxics": []}
            self._history.write(Line(kinds.NETWORK, {**told, "phase": "on"}))
            self._history.write(Line(kinds.NETWORK, {**told, "phase": "off", **counts}))

    def _other_victim(self) -> Role:
        return next(
            role for role in (Role.PRODUCER, self._reading) if role not in self.plan.evidence.killed
        )

    # --- what is written --------------------------------------------------------------------------

    @property
    def _producer(self) -> str:
        return self._scribe.incarnation(Role.PRODUCER)

    def _attempt(self) -> str:
        """Return the id of a new attempt, the first of a new transaction."""
        self._numbers["transaction"] += 1
        return f"{self._producer}.{self._numbers['transaction']}.1"

    def _sent(self, record: Record, attempt: str) -> None:
        self._numbers["request"] += 1
        self._scribe.tell(
            "wire",
            "sent",
            record=record.id,
            topic=self.between,
            attempt=attempt,
            request=f"1/{self._numbers['request']}",
            **self.aim(record),
        )

    def _transaction(self, attempt: str, outcome: str) -> None:
        name = attempt.rsplit(".", 1)[0]
        self._scribe.tell(
            self._producer, kinds.TRANSACTION, transaction=name, outcome=outcome, error=None
        )

    def delivered(self, copy: Copy, *, again: bool = False) -> None:
        """Write that the consumer was given a copy; ``again``: not for the first time."""
        del again  # a log does not know it
        self.tell_reader(kinds.DELIVERED, record=copy.record, **copy.where)

    def tell_reader(self, event: str, **fields: object) -> None:
        """Write a history line of the consuming program."""
        self._scribe.tell(self._reading, event, **fields)

    def _resumed(self, position: int) -> None:
        self._scribe.tell(
            self._producer, kinds.RESUMED, where=OUTBOX, partition=None, position=position
        )

    @property
    def results(self) -> int:
        """The number of rows in the sink."""
        return len(self._rows) + self.plant.phantom

    def _observe_sink(self) -> None:
        for copy in self._absorbed_copies:
            self.observed(kinds.ABSORBED, record=copy.record, **copy.where)
        rows = list(self._rows)
        place = {copy.record: number for number, copy in enumerate(rows)}
        for one, other in self.cast.swapped:
            rows[place[one]], rows[place[other]] = rows[place[other]], rows[place[one]]
        for order, copy in enumerate(rows):
            self.recorded(order, copy.record, copy.where)
        for number in range(
            self.plant.phantom
        ):  # alternately an unknown record, and a damaged one of the source
            self.recorded(
                len(rows) + number,
                self._target.id if number % 2 else None,
                self.nowhere,
                intact=False,
            )

    def recorded(
        self, order: int, record: str | None, where: Where, *, intact: bool = True
    ) -> None:
        """Write one row of the sink."""
        self.observed(
            "recorded",
            record=record,
            key=None,
            intact=intact,
            order=order,
            attempt=None,
            **where,
        )

    def observed(self, event: str, **fields: object) -> None:
        """Write what an authority says into the runner's file, as a real cell does."""
        self._history.write(Line(event, fields))
