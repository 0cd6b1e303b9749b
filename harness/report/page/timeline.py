"""A cell's timeline: a lane per node, messages between them, bands and marks. All of it comes from
the history.

Times are tenths of a millisecond since the cell's first event. Lanes are found in the events, never
listed: a system with a driver and executors has lanes of its own.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from harness.judge.health import how_ended
from harness.model import events as kinds
from harness.model.events import (
    BatchPhase,
    ConnPhase,
    Direction,
    DrainPhase,
    FaultPhase,
    NetworkPhase,
    NodePhase,
    RulePhase,
    TransactionOutcome,
)
from harness.model.prediction import examples
from harness.report.page.evidence import network_text
from harness.report.page.lanes import (
    AT_OTHER,
    AT_RECEIVER,
    AT_SENDER,
    AT_SERVER,
    AT_SINK,
    AT_SOURCE,
    AT_WIRE,
    BRIEF,
    SINK,
    SOURCE,
    WIRE,
    Lane,
    Lanes,
    Message,
    Traffic,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from harness.model.history import Event

TICK_NS = 100_000
"""One unit of the timeline: 0.1 ms."""
STOPPED: Final = frozenset({RulePhase.HELD, RulePhase.DROPPED, RulePhase.DISCARDED, RulePhase.CUT})
"""Phases of a rule that kept a frame from its destination."""
AT_REST: Final = (*kinds.AUTHORITIES, kinds.Absorbed)
"""Events written when everything was at rest. Their time is that of the query, not of what they
report.
"""
IDLE_SHARE, IDLE_LEAST, IDLE_EDGE = 0.05, 5_000, 1_000
"""A period without events is drawn short if it is longer than this share of the whole timeline, and
than ``IDLE_LEAST`` units. ``IDLE_EDGE`` units at its ends are drawn in full.
"""
RUNNER = "runner"
"""The name under which lostack's runner writes events. It is no program of the pipeline."""


@dataclass(frozen=True, slots=True)
class TimeBand:
    """A stretch of time; ``lane`` is null for one across all lanes, ``end`` null for one that
    nothing ended.
    """

    kind: str
    lane: str | None
    start: int
    end: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment on a lane."""

    kind: str
    lane: str
    t: int
    text: str


@dataclass(frozen=True)
class Timeline:
    """The drawing of one cell. ``breaks``: periods without events, as (start, end); they are drawn
    short. ``idle`` and ``telling``: how many messages (see :attr:`Message.weight`) were left out,
    the least important first.
    """

    lanes: tuple[Lane, ...]
    messages: tuple[Message, ...]
    bands: tuple[TimeBand, ...]
    marks: tuple[Mark, ...]
    end: int
    fired: int | None
    breaks: tuple[tuple[int, int], ...] = ()
    idle: int = 0
    telling: int = 0

    def limited(self, most: int) -> Timeline:
        """Return a copy with at most ``most`` messages, ranked by weight, then by distance to the
        fault.
        """
        if len(self.messages) <= most:
            return self
        near = self.fired if self.fired is not None else 0
        kept = sorted(self.messages, key=lambda message: (-message.weight, abs(message.t - near)))[
            :most
        ]
        kept.sort(key=lambda message: message.t)
        telling = sum(message.weight > 1 for message in self.messages) - sum(
            message.weight > 1 for message in kept
        )
        idle = len(self.messages) - most - telling
        return replace(self, messages=tuple(kept), idle=idle, telling=telling)


def timeline_of(events: Sequence[Event], targets: Collection[str] = ()) -> Timeline | None:
    """Draw a cell's events, which are in order of time; ``None`` where there are none. ``targets``:
    the records at which the fault struck.
    """
    if not events:
        return None
    drawing = _Drawing(events, targets)
    for event in events:
        drawing.add(event)
    return drawing.finished()


class _Drawing:
    """Collects what the events say, one after the other."""

    def __init__(self, events: Sequence[Event], targets: Collection[str]) -> None:
        self.zero: int = events[0].t
        self.last = 0
        self.lanes = Lanes(events)
        self.traffic = Traffic(self.lanes, targets)
        self.bands: list[TimeBand] = []
        self.marks: list[Mark] = []
        self.open: dict[tuple[str, str], tuple[int, str]] = {}
        self.refused: dict[str, tuple[int, int, int]] = {}
        self.fired: int | None = None
        self.hit: int | None = None
        self.step: dict[str, tuple[str, str]] = {}
        self.found: dict[type[Event], int] = {}
        self.observed = 0
        self.drained = False
        self._draw: dict[type[Event], Callable[[int, Any], None]] = {
            kinds.Node: self._node,
            kinds.Fault: self._fault,
            kinds.Network: self._network,
            kinds.Drain: self._drain,
            kinds.Failed: self._failed,
            kinds.Taken: self._taken,
            kinds.Delivered: self._delivered,
            kinds.Ready: self._ready,
            kinds.Resumed: self._resumed,
            kinds.Transaction: self._transaction,
            kinds.Batch: self._batch,
            kinds.Refused: self._refused,
            kinds.Unknown: self._refused,
            kinds.Failpoint: self._failpoint,
            kinds.Stopped: self._stopped,
            kinds.Rule: self._rule,
            kinds.Conn: self._conn,
            kinds.Undecodable: self._undecodable,
            kinds.Frame: self.traffic.draw_frame,
            kinds.Sent: self.traffic.draw_send,
            kinds.Unsent: self.traffic.draw_send,
            kinds.ProduceAnswer: self.traffic.draw_produce_answer,
            kinds.Fetched: self.traffic.draw_fetched,
            kinds.Committed: self.traffic.draw_commit,
            kinds.CommitAnswer: self.traffic.draw_commit,
            kinds.EndTxn: self.traffic.draw_end_txn,
            kinds.EndTxnAnswer: self.traffic.draw_end_txn_answer,
        }
        """The method that draws an event, by the event's kind."""

    def add(self, event: Event) -> None:
        """Draw one event. Events of other kinds only move the end of the timeline."""
        t = (event.t - self.zero) // TICK_NS
        self.last = max(self.last, t)
        kind = type(event)
        if kind in AT_REST:
            self.found[kind] = self.found.get(kind, 0) + 1
            self.observed = t
        elif (draw := self._draw.get(kind)) is not None:
            draw(t, event)

    def finished(self) -> Timeline:
        """Close open bands, sort the lanes, and return the timeline."""
        if self.found.get(kinds.Offered):
            self.lanes.lane(SOURCE, AT_SOURCE)
            self.marks.append(
                Mark("found", SOURCE, self.observed, f"{self.found[kinds.Offered]} offered")
            )
        if kinds.Offered in self.found or kinds.Recorded in self.found:
            self.lanes.lane(SINK, AT_SINK)
            rows = f"{self.found.get(kinds.Recorded, 0)} recorded"
            if self.found.get(kinds.Absorbed):
                rows += f", {self.found[kinds.Absorbed]} absorbed"
            self.marks.append(Mark("found", SINK, self.observed, rows))
        for (kind, lane), (start, text) in self.open.items():
            self.bands.append(TimeBand(kind, lane or None, start, None, text))
        for lane, (start, end, count) in self.refused.items():
            self.bands.append(TimeBand("refused", lane, start, end, f"{count} connections refused"))
        kinds_of = {SOURCE: SOURCE, WIRE: WIRE, SINK: SINK}
        names = sorted(self.lanes.ranks, key=lambda name: (self.lanes.ranks[name], name))
        lanes = tuple(Lane(name, kinds_of.get(name, "node")) for name in names)
        messages = tuple(self.traffic.messages)
        bands = tuple(sorted(self.bands, key=lambda band: band.start))
        marks = tuple(sorted(self.marks, key=lambda mark: mark.t))
        breaks = tuple(_breaks(messages, bands, marks, self.last))
        return Timeline(lanes, messages, bands, marks, self.last, self.fired, breaks)

    def _mark(self, kind: str, lane: str, t: int, text: str) -> None:
        self.marks.append(Mark(kind, lane, t, text))

    def _begin(self, kind: str, lane: str, t: int, text: str) -> None:
        self.open.setdefault((kind, lane), (t, text))

    def _finish(self, kind: str, lane: str, t: int, more: str = "") -> None:
        start, text = self.open.pop((kind, lane), (None, ""))
        if start is not None:
            self.bands.append(TimeBand(kind, lane or None, start, t, f"{text}{more}"))

    # --- the runner -------------------------------------------------------------------------------

    def _node(self, t: int, event: kinds.Node) -> None:
        lane = self.lanes.lane(event.node, AT_OTHER)
        who = f"{lane} #{event.incarnation}, pid {event.pid}"
        match event.phase:
            case NodePhase.STARTED:
                self._begin("life", lane, t, who)
            case NodePhase.READY:
                self._mark("ready", lane, t, f"{lane} is ready")
            case NodePhase.PAUSED:
                self._begin("pause", lane, t, f"{lane} is paused (SIGSTOP)")
            case NodePhase.RESUMED:
                self._finish("pause", lane, t)
            case NodePhase.EXITED:
                self._exited(t, event, lane, who)

    def _exited(self, t: int, event: kinds.Node, lane: str, who: str) -> None:
        killed = bool(event.signal) and not self.drained
        ended = how_ended(event)
        if self.drained:
            ended += ", after the drain"
        self._finish("pause", lane, t)
        for kind in ("transaction", "batch"):
            self._finish(kind, lane, t, ": its program died in it")
        if ("life", lane) not in self.open:
            self._begin("life", lane, 0, who)  # it lived before the cell began
        self._finish("life", lane, t, f": {ended}")
        self._mark("kill" if killed else "exit", lane, t, f"{who}: {ended}")

    def _fault(self, t: int, event: kinds.Fault) -> None:
        match event.phase:
            case FaultPhase.FIRED:
                t = (
                    t if self.hit is None else min(t, self.hit)
                )  # the runner, which says so, learns of it a little later
                self.fired = t if self.fired is None else self.fired
                at = f" at {event.record}" if event.record else ""
                self._begin("fault", "", t, f"fault: {event.fault}{at}")
            case FaultPhase.HEALED:
                self._finish("fault", "", t)
            case FaultPhase.FORGOT:
                text = f"{event.file}: {event.bytes_before} bytes reverted to {event.bytes_after}"
                self._mark("forgot", self._servers(), t, text)

    def _servers(self) -> str:
        return next((name for name, rank in self.lanes.ranks.items() if rank == AT_SERVER), WIRE)

    def _network(self, t: int, event: kinds.Network) -> None:
        lane = self.lanes.client(None, event.role)
        if event.phase == NetworkPhase.ON:
            self._begin("network", lane, t, network_text(event))
        else:
            self._finish("network", lane, t)
            self._mark("healed", lane, t, network_text(event))

    def _drain(self, t: int, event: kinds.Drain) -> None:
        if event.phase == DrainPhase.BEGUN:
            self._begin("drain", "", t, "drain")
        else:
            self.drained = True
            failed = event.phase == DrainPhase.FAILED
            because = f": {event.stage}: {event.because}" if failed else ""
            self._finish("drain", "", t, f" {event.phase}{because}")

    def _failed(self, t: int, event: kinds.Failed) -> None:
        self._mark("kill", self.lanes.lane(WIRE, AT_WIRE), t, f"the run failed: {event.because}")

    # --- the programs -----------------------------------------------------------------------------

    def _taken(self, t: int, event: kinds.Taken) -> None:
        """Add a message from the source to the program that took a record. For a program that the
        runner feeds, the runner writes the event.
        """
        fed = self.lanes.fed() if event.by == RUNNER else None
        lane = self.lanes.lane(fed, AT_SENDER) if fed else self.lanes.writer(event, AT_SENDER)
        source, record = self.lanes.lane(SOURCE, AT_SOURCE), event.record
        message = Message(t, source, lane, "take", str(Direction.REQUEST), [record])
        message.target = record in self.traffic.targets
        self.traffic.messages.append(message)

    def _delivered(self, _: int, event: kinds.Delivered) -> None:
        """Mark the program as a receiver. The message itself comes from the wire's events."""
        self.lanes.writer(event, AT_RECEIVER)

    def _ready(self, t: int, event: kinds.Ready) -> None:
        if event.partitions is not None:
            held = ", ".join(map(str, event.partitions)) or "none"
            self._mark("rebalance", self.lanes.writer(event), t, f"assigned: partitions {held}")

    def _resumed(self, t: int, event: kinds.Resumed) -> None:
        place = "" if event.partition is None else f" partition {event.partition}"
        self._mark("resumed", self.lanes.writer(event), t, f"goes on from{place} {event.position}")

    def _transaction(self, t: int, event: kinds.Transaction) -> None:
        lane = self.lanes.writer(event)
        if event.outcome == TransactionOutcome.BEGUN:
            self._finish("transaction", lane, t, " never ended")
            self._begin("transaction", lane, t, f"transaction {event.transaction}")
        else:
            error = f" ({event.error})" if event.error else ""
            self._finish("transaction", lane, t, f" {event.outcome}{error}")

    def _batch(self, t: int, event: kinds.Batch) -> None:
        lane, name = self.lanes.writer(event, AT_RECEIVER), f"batch {event.batch}"
        if self.step.get(lane) == (name, event.phase):
            return  # one event per partition
        if self.open.get(("batch", lane), (0, name))[1] != name:
            self._finish("batch", lane, t, " never ended")
        self.step[lane] = (name, event.phase)
        self._begin("batch", lane, t, name)
        self._mark("step", lane, t, f"{name}: {event.phase}")
        if event.phase == BatchPhase.AFTER_COMMIT_LOG:
            self._finish("batch", lane, t, " committed")

    def _refused(self, t: int, event: kinds.OfAttempt) -> None:
        """Mark an attempt whose send failed, or whose outcome the program cannot know."""
        lane = self.lanes.writer(event)
        self._mark(event.event, lane, t, f"{event.record} {event.event}: {event.error}")

    def _failpoint(self, t: int, event: kinds.Failpoint) -> None:
        text = (
            f"failpoint {event.name}, hit {event.hit}, record {event.record}, pid {event.pid}: "
            f"{event.action}"
        )
        live = [
            lane
            for (kind, lane), (_, who) in self.open.items()
            if kind == "life" and who.endswith(f"pid {event.pid}")
        ]
        self.hit = t
        self._mark("hit", live[0] if live else self.lanes.writer(event), t, text)

    def _stopped(self, t: int, event: kinds.Stopped) -> None:
        self._mark("stopped", self.lanes.writer(event), t, f"stopped: {event.because}")

    # --- the wire ---------------------------------------------------------------------------------

    def _rule(self, t: int, event: kinds.Rule) -> None:
        phase = event.phase
        if phase in (RulePhase.ARMED, RulePhase.DISARMED):
            return
        direction = Direction.RESPONSE if event.dir == Direction.RESPONSE else Direction.REQUEST
        message = self.traffic.requests.get((event.conn, event.corr, direction))
        struck = event.rule not in kinds.WAVES
        answered = phase == RulePhase.ANSWERED
        if message is not None:
            message.hit |= struck
            if phase in STOPPED or (answered and not event.forward):
                message.fate = str(phase)
            elif phase in (RulePhase.RELEASED, RulePhase.DELIVERED):
                message.fate = ""
        if hit := struck and phase == RulePhase.HIT:
            self.hit = t
        held = f" with {examples({*event.records}, BRIEF)}" if event.records else ""
        error = f" by the wire: {event.error}" if answered else ""
        text = f"{phase}{error}: {event.api} {direction}{held}, {event.client or event.role}"
        self._mark("hit" if hit else "rule", self.lanes.lane(WIRE, AT_WIRE), t, text)

    def _conn(self, t: int, event: kinds.Conn) -> None:
        if event.phase == ConnPhase.REFUSED:
            lane = self.lanes.client(event.client, event.role)
            start, _, count = self.refused.get(lane, (t, t, 0))
            self.refused[lane] = (start, t, count + 1)

    def _undecodable(self, t: int, event: kinds.Undecodable) -> None:
        text = f"cannot read {event.api} v{event.version}: {event.because}"
        self._mark("rule", self.lanes.lane(WIRE, AT_WIRE), t, text)


def _breaks(
    messages: Sequence[Message], bands: Sequence[TimeBand], marks: Sequence[Mark], end: int
) -> Iterator[tuple[int, int]]:
    """Yield long periods without marks, bands or messages about records. Only housekeeping requests
    pass in them.
    """
    moments = {0, end, *(message.t for message in messages if message.weight > 1)}
    moments |= {mark.t for mark in marks} | {band.start for band in bands}
    moments |= {band.end for band in bands if band.end is not None}
    least = max(IDLE_LEAST, int(end * IDLE_SHARE))
    for before, after in itertools.pairwise(sorted(moments)):
        if after - before > least:
            yield before + IDLE_EDGE, after - IDLE_EDGE
