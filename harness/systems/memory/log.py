"""The in-memory system: it exists to test the harness, and says nothing about any real one.

It *plays* a cell as theory predicts it: records go from a source through a log to a sink, the fault fires at its
target, the victims die and come back, what must be lost is lost, what must be duplicated is duplicated, and the sign
of protection shows. The whole history of a real run is written. A :class:`~harness.systems.planting.Plant` makes it
lie: a system that loses k records must be convicted of exactly k, and one whose fault never fires must be void.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.core import events as kinds
from harness.core.course import SIGKILL
from harness.core.history import HISTORY, SUFFIX, HistoryWriter
from harness.core.places import Removal, log_fields, waits_in_log
from harness.core.plan import plan_of
from harness.core.scenario import Role
from harness.core.settings import PipelineKind
from harness.core.sign import Sign
from harness.core.states import Hop, LastHop
from harness.proofs.network import Effect, NetworkBad
from harness.systems.planting import Cast, Plant, cast_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from harness.core.cell import Cell
    from harness.core.record import Record
    from harness.core.scenario import Deployment

_REMOVED = {
    LastHop.GIVEN_UP: Removal.ACK, LastHop.EXPIRED: Removal.EXPIRY, LastHop.LIMIT: Removal.LIMIT,
    LastHop.REJECTED: Removal.REJECT, LastHop.DEAD_LETTER: Removal.DEAD_LETTER,
}  # fmt: skip
"""Where a record was last seen of which a broker says that it has removed it, and why."""
_GONE = (*_REMOVED, LastHop.DELETED, LastHop.MOVED)
TOPIC = "topic"
OUTBOX = "outbox"


class MemorySystem:
    """A system that is played. ``plants`` is by scenario id; ``plant`` is for all others."""

    name = "memory"

    def __init__(self, plant: Plant | None = None, plants: Mapping[str, Plant] | None = None) -> None:
        self._plant = plant or Plant()
        self._plants = plants or {}

    def prepare(self, say: Callable[[str], None]) -> None:
        """Need nothing."""
        say("the in-memory system is a play: nothing real is crashed")

    def deploy(self, need: Deployment, directory: Path) -> MemoryDeployed:
        """Deploy nothing."""
        del need, directory
        return MemoryDeployed(self._plant, self._plants)

    def versions(self) -> dict[str, str]:
        """Return the version of what runs it."""
        return {"memory": "simulated", "python": sys.version.split()[0]}


@dataclass(frozen=True)
class MemoryDeployed:
    """Nothing that runs."""

    plant: Plant
    plants: Mapping[str, Plant]

    def together(self, cells: Sequence[Cell]) -> None:
        """Share nothing: every play has a broker of its own."""

    def cell_run(self, cell: Cell, directory: Path, history: HistoryWriter) -> MemoryCellRun:
        """Return the play of one cell."""
        return MemoryCellRun(cell, directory, history, self.plants.get(cell.scenario.id, self.plant))

    def check(self) -> None:
        """Find nothing: memory does not break."""

    def close(self) -> None:
        """Close nothing."""


@dataclass
class _Copy:
    """One copy in the log. ``spare``: the sink absorbs it, for another copy of the record is recorded."""

    record: str
    partition: int
    offset: int
    attempt: str
    visible: bool
    spare: bool


@dataclass
class _Log:
    """The log between producer and consumer."""

    copies: list[_Copy] = field(default_factory=list)
    ends: Counter[int] = field(default_factory=Counter)

    def append(self, record: Record, partition: int, attempt: str, *, visible: bool, spare: bool) -> None:
        """Append a copy."""
        self.copies.append(_Copy(record.id, partition, self.ends[partition], attempt, visible, spare))
        self.ends[partition] += 1

    def first(self, partition: int, records: set[str]) -> int:
        """Return the offset of the first copy of any of ``records`` in a partition, or its end."""
        found = (copy.offset for copy in self.copies if copy.partition == partition and copy.record in records)
        return min(found, default=self.ends[partition])


class MemoryCellRun:
    """The play of one cell. Implements :class:`harness.interfaces.CellRun`."""

    def __init__(self, cell: Cell, directory: Path, history: HistoryWriter, plant: Plant) -> None:
        self._cell = cell
        self._plan = plan_of(cell)
        self._plant = plant
        self._history = history
        self._directory = directory / HISTORY
        self._writers: dict[str, HistoryWriter] = {}
        self._incarnations: Counter[Role] = Counter()
        self._numbers: Counter[str] = Counter()
        self._log = _Log()
        self._rows: list[_Copy] = []
        self._absorbed_copies: list[_Copy] = []
        self._cursor = 1
        self._cast = Cast()
        load = cell.load()
        self._records, self._target = load.records, load.target
        topic_to_topic = self._plan.pipeline == PipelineKind.TOPIC_TO_TOPIC
        self._reading = Role.PROCESSOR if topic_to_topic else Role.CONSUMER

    # --- the steps ---------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Hand out the parts; the nodes come up."""
        self._cast = cast_of(self._plan, self._plant, self._records)
        for role in (Role.BROKER, Role.PRODUCER, self._reading):
            self._start(role)
        if self._plant.unhealthy:
            self._exit(self._reading, status=1)
            self._start(self._reading)
        self._resumed(1)
        self._fault("armed")

    def load(self) -> None:
        """Let the records before the target flow; all of them, where nothing is to move after the fault."""
        if self._plan.refused_by_client:
            self._tell(self._producer, kinds.STOPPED, because="the client refused these settings", kind="settings")
            return
        for record in self._records:
            if self._plant.no_load or record.position < self._target.position:
                self._flow(record)

    def inject(self) -> None:
        """Fire with the target on its way, then let the rest flow."""
        if self._plan.refused_by_client:
            return
        if self._plant.no_load:
            self._fire()
            return
        self._send(self._target)
        self._fire()
        self._show_sign()
        self._consume(self._target)
        for record in self._records:
            if record.position > self._target.position:
                self._flow(record)

    def drain(self) -> None:
        """Come to rest, or fail to."""
        self._history.write(kinds.DRAIN, phase="begun", stage=None, because=None)
        if self._plant.cut_drain:
            return
        if self._cast.stalled:
            stage, because = "topic", "the last stable offset is below the high watermark"
        elif self._cast.unread:
            stage, because = "position", "the saved position is below the last record"
        else:
            self._history.write(kinds.DRAIN, phase="completed", stage=None, because=None)
            return
        self._history.write(kinds.DRAIN, phase="failed", stage=stage, because=because)

    def observe(self) -> None:
        """Write what the authorities would say."""
        for record in self._records:
            self._observed(kinds.OFFERED, record=record.id, key=record.key, position=record.position)
        self._observed(kinds.CURSOR, position=self._cursor, where=OUTBOX)
        self._observe_log()
        self._observe_sink()

    def close(self) -> None:
        """Close the files."""
        for writer in self._writers.values():
            writer.close()
        self._writers = {}

    # --- the way of a record -----------------------------------------------------------------------------------------

    def _flow(self, record: Record) -> None:
        if record.id not in self._cast.untaken:
            self._send(record)
            self._consume(record)

    def _send(self, record: Record) -> None:
        """Take a record from the source, send it and store it, as its part wants it."""
        part = self._cast.lost.get(record.id)
        self._cursor = record.position + 1
        self._tell(self._producer, kinds.TAKEN, record=record.id)
        if part is LastHop.NEVER_SENT:
            return
        if part is LastHop.ABORTED:
            self._abort(record, visible=False)
            return
        if record.id in self._cast.resurrected:
            self._abort(record, visible=True)
        if record.id in self._cast.torn:
            self._tear(record)
        attempt = self._attempt()
        self._sent(record, attempt)
        if part in _GONE:
            self._lose_stored(record, part)
        elif part not in (LastHop.SENT, LastHop.ACKED):
            for _ in range(self._cast.stored_twice.get(record.id, 1)):
                self._store(record, attempt, visible=record.id not in self._cast.stalled)
        uncertain = part is LastHop.SENT or (record is self._target and self._shows(Sign.NOT_RESENT))
        self._tell(self._producer, kinds.UNKNOWN if uncertain else kinds.ACKED, record=record.id, attempt=attempt,
                   hop="topic", error="Timeout" if uncertain else None)  # fmt: skip

    def _lose_stored(self, record: Record, part: LastHop) -> None:
        """Say how the broker has lost a record that it had, and of which nothing else is known."""
        if part is LastHop.MOVED:
            self._history.write(
                kinds.MOVED, record=record.id, place=f"message {record.position}", to=f"elsewhere {record.position}"
            )
        elif part is LastHop.DELETED:
            self._history.write(
                kinds.REMOVED, why=Removal.RETENTION, topic=TOPIC, record=record.id, visible=True, **log_fields(0, 0, 0)
            )
        else:
            if part is LastHop.REJECTED:
                self._tell(self._reading, kinds.DELIVERED, record=record.id)
            self._history.write(kinds.REMOVED, why=_REMOVED[part], record=record.id, place=f"message {record.position}")

    def _abort(self, record: Record, *, visible: bool) -> None:
        """Make an attempt in a transaction that is aborted; a broken system shows it all the same."""
        attempt = self._attempt()
        self._transaction(attempt, "begun")
        self._sent(record, attempt)
        self._store(record, attempt, visible=visible, spare=True)
        self._transaction(attempt, "aborted")

    def _tear(self, record: Record) -> None:
        """Make two attempts in one transaction, of which one is visible."""
        attempt = self._attempt()
        self._transaction(attempt, "begun")
        for one, visible in ((attempt, True), (f"{attempt}2", False)):
            self._sent(record, one)
            self._store(record, one, visible=visible, spare=True)
        self._transaction(attempt, "unknown")

    def _consume(self, record: Record) -> None:
        """Deliver and record the visible copies of a record, as its part wants it."""
        part = self._cast.lost.get(record.id)
        if record.id in self._cast.unread or part is LastHop.SKIPPED:
            return
        for copy in [copy for copy in self._log.copies if copy.record == record.id and copy.visible]:
            for _ in range(self._cast.delivered_twice.get(record.id, 1)):
                self._delivered(copy)
                if copy.spare:
                    self._absorbed(copy)
                elif part is not LastHop.DELIVERED:
                    self._rows.append(copy)

    def _show_sign(self) -> None:
        """Show what proves that the protection worked on the target, where the plan wants a proof."""
        sent = next((copy for copy in self._log.copies if copy.record == self._target.id), None)
        ways: dict[Sign, Callable[[], None]] = {
            Sign.TAKEN_AGAIN: lambda: self._tell("producer-again", kinds.TAKEN, record=self._target.id),
            Sign.ABORTED: lambda: self._abort(self._target, visible=False),
            Sign.RESUMED_PAST: lambda: self._resumed(self._target.position + 1),
        }
        if sent is not None:
            ways |= {
                Sign.REPEATED_REQUEST: lambda: self._sent(self._target, sent.attempt),
                Sign.SENT_ANEW: lambda: self._sent(self._target, self._attempt()),
                Sign.DELIVERED_AGAIN: lambda: self._delivered(sent),
                Sign.ABSORBED: lambda: self._absorbed(sent),
            }
        for sign, show in ways.items():
            if self._shows(sign):
                show()

    def _shows(self, sign: Sign) -> bool:
        return self._plan.sign is sign and not self._plant.hide_sign and not self._plant.disarm

    # --- the fault ---------------------------------------------------------------------------------------------------

    def _fire(self) -> None:
        """Hit the trigger, kill or pause the victims, bring them back."""
        evidence = self._plan.evidence
        if evidence.trigger == "none" or self._plant.disarm:
            return
        if evidence.trigger == "rule":
            self._tell("wire", kinds.RULE, rule="fault", phase="hit", records=[self._target.id])
        else:
            self._tell("failpoint", kinds.FAILPOINT, name="here", record=self._target.id, hit=1, action="kill", pid=1)
        self._fault("fired", record=self._target.id)
        killed = (self._other_victim(),) if self._plant.wrong_victim else evidence.killed
        for role in killed:
            self._exit(role, signal=SIGKILL)
        for role in evidence.paused:
            self._node(role, "paused")
        if evidence.forgotten:
            self._forget()
        if (network := self._cell.scenario.fault.evidence().proof(NetworkBad)) is not None:
            self._bad_network(network)
        for role in killed:
            self._start(role)
        for role in evidence.paused:
            self._node(role, "resumed")
        self._fault("healed")

    def _bad_network(self, need: NetworkBad) -> None:
        """Show the effect on the network, exactly as much as is needed; nothing of it where it is planted so."""
        shown = 0.0 if self._plant.network_idle else need.limit
        counts = {"sent": 1000, "answers": 0 if need.effect is Effect.SILENT and not self._plant.network_idle else 10,
                  "reads": 10 * shown, "lost": shown, "longest_s": shown, "rate": shown or 10 * need.limit}  # fmt: skip
        for role in [*need.roles] * need.times:
            self._history.write(kinds.NETWORK, phase="on", role=role, node="broker", toxics=[])
            self._history.write(kinds.NETWORK, phase="off", role=role, node="broker", toxics=[], **counts)

    def _forget(self) -> None:
        for partition in range(self._cell.settings.topic.partitions):
            offset = self._log.ends[partition] if self._shows(Sign.FLUSHED) else 0
            self._history.write(kinds.FLUSHED, partition=partition, offset=offset)
        self._fault("forgot", file=TOPIC)

    def _other_victim(self) -> Role:
        return next(role for role in (Role.PRODUCER, self._reading) if role not in self._plan.evidence.killed)

    # --- what is written ---------------------------------------------------------------------------------------------

    @property
    def _producer(self) -> str:
        return f"{Role.PRODUCER}-{self._incarnations[Role.PRODUCER]}"

    def _attempt(self) -> str:
        """Return the id of a new attempt, the first of a transaction of its own."""
        self._numbers["transaction"] += 1
        return f"{self._producer}.{self._numbers['transaction']}.1"

    def _sent(self, record: Record, attempt: str) -> None:
        self._numbers["request"] += 1
        self._tell("wire", kinds.SENT, record=record.id, topic=TOPIC, partition=self._place(record), attempt=attempt,
                   request=f"1/{self._numbers['request']}", producer_id=-1, producer_epoch=-1, sequence=-1)  # fmt: skip

    def _store(self, record: Record, attempt: str, *, visible: bool, spare: bool = False) -> None:
        self._log.append(record, self._place(record), attempt, visible=visible, spare=spare)

    def _place(self, record: Record) -> int:
        return record.position % self._cell.settings.topic.partitions

    def _transaction(self, attempt: str, outcome: str) -> None:
        name = attempt.rsplit(".", 1)[0]
        self._tell(self._producer, kinds.TRANSACTION, transaction=name, outcome=outcome, error=None)

    def _delivered(self, copy: _Copy) -> None:
        self._tell(self._reading, kinds.DELIVERED, **_place_of(copy))

    def _absorbed(self, copy: _Copy) -> None:
        self._absorbed_copies.append(copy)

    def _resumed(self, position: int) -> None:
        self._tell(self._producer, kinds.RESUMED, where=OUTBOX, partition=None, position=position)

    def _observe_log(self) -> None:
        last: Counter[int] = Counter()
        partitions = range(self._cell.settings.topic.partitions)
        stable = {partition: self._log.first(partition, self._cast.stalled) for partition in partitions}
        saved = {partition: self._log.first(partition, self._cast.stalled | self._cast.unread) for partition in partitions}
        for copy in self._log.copies:
            if copy.visible:
                last[copy.partition] = copy.offset + 1
            waiting = waits_in_log(visible=copy.visible, offset=copy.offset, stable=stable[copy.partition],
                                   saved=saved[copy.partition])  # fmt: skip
            self._observed(
                kinds.STORED, hop="topic", topic=TOPIC, key=None, intact=True, visible=copy.visible, waiting=waiting,
                attempt=copy.attempt, producer_id=-1, **_place_of(copy),
            )  # fmt: skip
        for partition in partitions:
            self._observed(kinds.LOG, hop="topic", topic=TOPIC, partition=partition, start=0, stable=stable[partition],
                           end=self._log.ends[partition], last_data=last[partition] - 1)  # fmt: skip
            self._observed(kinds.POSITION, partition=partition, offset=saved[partition], where="group")

    def _observe_sink(self) -> None:
        for copy in self._absorbed_copies:
            self._observed(kinds.ABSORBED, **_place_of(copy))
        rows = list(self._rows)
        place = {copy.record: number for number, copy in enumerate(rows)}
        for one, other in self._cast.swapped:
            rows[place[one]], rows[place[other]] = rows[place[other]], rows[place[one]]
        for order, copy in enumerate(rows):
            self._recorded(order, copy.record, partition=copy.partition, offset=copy.offset)
        for number in range(self._plant.phantom):  # by turns a stranger, and a record of ours that is damaged
            self._recorded(len(rows) + number, self._target.id if number % 2 else None, intact=False)
        self._observe_other_logs(len(rows) + self._plant.phantom)

    def _observe_other_logs(self, results: int) -> None:
        """Write the ends of the log that is the sink, all of which is in one partition, and of the cursor's."""
        for hop, partitions in self._plan.logs.items():
            for partition in range(partitions) if hop != Hop.TOPIC else ():
                end = results if hop == Hop.SINK and partition == 0 else 0
                self._observed(kinds.LOG, hop=hop, topic=hop, partition=partition, start=0, stable=end, end=end,
                               last_data=end - 1)  # fmt: skip

    def _recorded(self, order: int, record: str | None, *, partition: int = -1, offset: int = -1, intact: bool = True) -> None:
        self._observed(kinds.RECORDED, record=record, key=None, intact=intact, order=order, attempt=None,
                       **log_fields(partition, 0, offset))  # fmt: skip
        if Hop.SINK in self._plan.logs:
            self._observed(
                kinds.STORED, hop=Hop.SINK, topic=Hop.SINK, record=record, key=None, intact=intact, visible=True, waiting=None,
                attempt=None, producer_id=-1, **log_fields(0, 0, order),
            )  # fmt: skip

    def _observed(self, event: str, **fields: object) -> None:
        """Write what an authority says: like a real cell, into the runner's file, behind which only the end comes."""
        self._history.write(event, **fields)

    def _tell(self, by: str, event: str, **fields: object) -> None:
        """Write a line into the file of its writer."""
        if by not in self._writers:
            self._writers[by] = HistoryWriter(self._directory / f"{by}{SUFFIX}", cell=self._cell.id, by=by)
        self._writers[by].write(event, **fields)

    def _fault(self, phase: str, **fields: object) -> None:
        self._history.write(kinds.FAULT, phase=phase, fault=self._cell.scenario.fault.id, **fields)

    def _start(self, role: Role) -> None:
        self._incarnations[role] += 1
        self._node(role, "started")
        self._node(role, "ready")

    def _exit(self, role: Role, *, status: int | None = None, signal: int | None = None) -> None:
        self._node(role, "exited", status=status, signal=signal)

    def _node(self, role: Role, phase: str, **fields: object) -> None:
        self._history.write(kinds.NODE, node=str(role), role=role, incarnation=self._incarnations[role], phase=phase,
                            pid=self._incarnations[role], **fields)  # fmt: skip


def _place_of(copy: _Copy) -> dict[str, object]:
    return {"record": copy.record, **log_fields(copy.partition, 0, copy.offset)}
