"""A cell's timeline: a lane per node, messages between them, bands and marks. All of it comes from
the history.

Times are tenths of a millisecond since the cell's first event. Lanes are found in the events, never
listed: a system with a driver and executors has lanes of its own.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from harness.judge.course import how_ended
from harness.model import events as kinds
from harness.model.prediction import examples
from harness.report.page.evidence import network_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.model.history import Event

TICK_NS = 100_000
"""One unit of the timeline: 0.1 ms."""
SOURCE, WIRE, SINK = "source", "wire", "sink"
_SOURCE, _SENDER, _WIRE, _SERVER, _OTHER, _RECEIVER, _SINK = range(7)
"""The order of lanes, down the way of a record."""
STOPPED = frozenset({"held", "dropped", "discarded", "cut"})
"""What became of a frame that a rule did not let pass."""
AT_REST = frozenset({*(each.__struct_config__.tag for each in kinds.AUTHORITIES), kinds.ABSORBED})
"""Asked for at the end: their time is when they were asked, not when it happened."""
BRIEF = 3
"""How many records a message names."""
IDLE_SHARE, IDLE_LEAST, IDLE_EDGE = 0.05, 5_000, 1_000
"""A stretch in which nothing is told is drawn short if it is longer than this share of the whole
timeline, and than ``IDLE_LEAST`` units; ``IDLE_EDGE`` units at its ends are drawn in full.
"""
RUNNER = "runner"
"""Who writes the lines of lostack's own runner, which is no program of the pipeline."""
SENDERS = ("producer", "processor", "driver")
"""The roles that take records from the source; the first of them that there is."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One line of the drawing. ``kind``: source, node, wire or sink."""

    name: str
    kind: str


@dataclass(slots=True)
class Message:
    """A frame on the wire, drawn from lane to lane at the time the wire saw it.

    ``fate`` is empty when it passed, else what stopped it. ``notes`` say what it carried.
    """

    t: int
    start: str
    end: str
    api: str
    direction: str
    notes: list[str] = field(default_factory=list)
    fate: str = ""
    hit: bool = False
    target: bool = False
    """Whether it carried the record at which the fault struck."""

    @property
    def weight(self) -> int:
        """How much it matters: a rule's frame most, then what carries records, positions or an
        outcome.
        """
        return 3 if self.hit or self.fate or self.target else 2 if self.notes else 1

    @property
    def note(self) -> str:
        """What it carried, in a few words."""
        more = len(self.notes) - BRIEF
        return ", ".join(self.notes[:BRIEF]) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True, slots=True)
class Band:
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
    """Everything that is drawn of one cell.

    ``breaks``: stretches in which nothing is told, as (start, end); they are drawn short. ``idle``
    and ``telling`` messages (see :attr:`Message.weight`) were left out, the least important first.
    """

    lanes: tuple[Lane, ...]
    messages: tuple[Message, ...]
    bands: tuple[Band, ...]
    marks: tuple[Mark, ...]
    end: int
    fired: int | None
    breaks: tuple[tuple[int, int], ...] = ()
    idle: int = 0
    telling: int = 0

    def limited(self, most: int) -> Timeline:
        """Return it with at most so many messages: those that matter most, then those nearest the
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


def timeline_of(events: Sequence[Event], target: str = "") -> Timeline | None:
    """Draw a cell's events, which are in order of time; ``None`` where there are none. ``target``:
    the record at which the fault struck.
    """
    if not events:
        return None
    drawing = _Drawing(events, target)
    for event in events:
        drawing.add(event)
    return drawing.finished()


class _Lanes:
    """The lanes that there are so far, and whose an event is."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._nodes = {
            str(e.get("node")): str(e.get("role")) for e in events if e["event"] == kinds.NODE
        }
        self._writers = {
            f"{e.get('node')}-{e.get('incarnation')}": str(e.get("node"))
            for e in events
            if e["event"] == kinds.NODE
        }
        self._clients = [
            (re.compile(rf"(^|\.){re.escape(name)}(\.\d+)?(\.|$)"), name) for name in self._nodes
        ]
        self.ranks: dict[str, int] = {}
        """The lanes, and where each stands."""

    def lane(self, name: str, rank: int) -> str:
        """Return a lane by its name, and note where it stands among the others."""
        before = self.ranks.get(name, _OTHER)
        if before == _OTHER or (
            rank != _OTHER and rank > before
        ):  # who sends and receives stands with the receivers
            self.ranks[name] = rank
        return name

    def fed(self) -> str | None:
        """Return the lane of the program that the runner gives records to."""
        named = (
            (role, name) for role in SENDERS for name, its in self._nodes.items() if its == role
        )
        return next((name for _, name in named), None)

    def writer(self, event: Event, rank: int = _OTHER) -> str:
        """Return the lane of the program that wrote an event."""
        by = str(event.get("by"))
        helped = (
            node for name, node in self._writers.items() if by.startswith(f"{name}-")
        )  # part of a program: its JVM
        return self.lane(self._writers.get(by) or next(helped, by), rank)

    def client(self, event: Event) -> str:
        """Return the lane of the program at the client's end of a connection."""
        client, role = str(event.get("client") or ""), str(event.get("role") or "client")
        found = next((name for pattern, name in self._clients if pattern.search(client)), None)
        if found is None:
            having = [name for name, its in self._nodes.items() if its == role]
            found = having[0] if len(having) == 1 else role
        return self.lane(found, _OTHER)


class _Traffic:
    """What the wire saw pass, as messages from lane to lane."""

    def __init__(self, lanes: _Lanes, target: str) -> None:
        self._lanes = lanes
        self.target = target
        self.messages: list[Message] = []
        self.requests: dict[tuple[object, ...], Message] = {}
        self._answers: dict[object, Message] = {}

    def draw_frame(self, t: int, event: Event) -> None:
        """A frame is a message from lane to lane."""
        client, server = (
            self._lanes.client(event),
            self._lanes.lane(str(event.get("node") or "server"), _SERVER),
        )
        self._lanes.lane(WIRE, _WIRE)
        asked = event.get("dir") != "response"
        start, end = (client, server) if asked else (server, client)
        message = Message(t, start, end, str(event.get("api")), "request" if asked else "response")
        if event.get("error"):
            message.notes.append(f"error {event['error']}")
        self.messages.append(message)
        self.requests[event.get("conn"), event.get("corr"), message.direction] = message
        if not asked:
            self._answers[event.get("conn")] = message

    def _about(self, event: Event, direction: str) -> Message | None:
        conn, _, corr = str(event.get("request")).partition(":")
        return self.requests.get((_number(conn), _number(corr), direction))

    def _carried(self, event: Event, direction: str, note: str, *, reached: bool = True) -> None:
        message = self._about(event, direction)
        if message is not None:
            message.notes.append(note)
            message.target |= self._is_target(event)
            if not (reached and event.get("reached") is not False) and not message.fate:
                message.fate = "never arrived"

    def _is_target(self, event: Event) -> bool:
        return bool(self.target) and event.get("record") == self.target

    def draw_sent(self, t: int, event: Event) -> None:  # noqa: ARG002 - its frame has the time
        """A request carries a record."""
        self._carried(event, "request", str(event.get("record")))
        message = self._about(event, "request")
        if message is not None and self._lanes.ranks.get(message.start) == _OTHER:
            self._lanes.lane(message.start, _SENDER)

    def draw_unsent(self, t: int, event: Event) -> None:  # noqa: ARG002 - its frame has the time
        """A record was to go, and did not."""
        self._carried(event, "request", str(event.get("record")), reached=False)

    def draw_produce_answer(self, t: int, event: Event) -> None:  # noqa: ARG002 - its frame has the time
        """An answer tells where a record is, or why not."""
        said = (
            f"{event.get('record')} error {event['error']}"
            if event.get("error")
            else f"@{event.get('offset')}"
        )
        self._carried(event, "response", said)

    def draw_fetched(self, t: int, event: Event) -> None:  # noqa: ARG002 - its frame has the time
        """An answer carries a record."""
        message = self._answers.get(event.get("conn"))
        if message is not None:
            message.notes.append(
                f"{event.get('record')} {event.get('partition')}@{event.get('offset')}"
            )
            message.target |= self._is_target(event)
            if event.get("reached") is False and not message.fate:
                message.fate = "never arrived"
            if self._lanes.ranks.get(message.end) == _OTHER:
                self._lanes.lane(message.end, _RECEIVER)

    def draw_committed(self, t: int, event: Event) -> None:  # noqa: ARG002 - its frame has the time
        """A request saves a position."""
        self._carried(event, "request", f"{event.get('partition')}@{event.get('offset')}")

    def draw_commit_answer(self, t: int, event: Event) -> None:  # noqa: ARG002 - its frame has the time
        """An answer tells of a position."""
        error = f" error {event['error']}" if event.get("error") else ""
        self._carried(event, "response", f"{event.get('partition')}@{event.get('offset')}{error}")

    def draw_end_txn(self, t: int, event: Event) -> None:  # noqa: ARG002 - its frame has the time
        """A request ends a transaction."""
        self._carried(event, "request", "commit" if event.get("commit") else "abort")

    def draw_end_txn_answer(self, t: int, event: Event) -> None:  # noqa: ARG002 - its frame has the time
        """An answer tells of that."""
        self._carried(
            event, "response", f"error {event['error']}" if event.get("error") else "done"
        )


class _Drawing:
    """Collects what the events say, one after the other."""

    def __init__(self, events: Sequence[Event], target: str) -> None:
        self.zero: int = events[0]["t"]
        self.last = 0
        self.lanes = _Lanes(events)
        self.traffic = _Traffic(self.lanes, target)
        self.bands: list[Band] = []
        self.marks: list[Mark] = []
        self.open: dict[tuple[str, str], tuple[int, str]] = {}
        self.refused: dict[str, tuple[int, int, int]] = {}
        self.fired: int | None = None
        self.hit: int | None = None
        self.step: dict[str, tuple[str, str]] = {}
        self.found: dict[str, int] = {}
        self.observed = 0
        self.drained = False

    def add(self, event: Event) -> None:
        """Take in one event; one of a kind that is not drawn changes nothing."""
        t = (event["t"] - self.zero) // TICK_NS
        self.last = max(self.last, t)
        kind = event["event"]
        if kind in AT_REST:
            self.found[kind] = self.found.get(kind, 0) + 1
            self.observed = t
            return
        draw = getattr(self, f"_{kind}", None) or getattr(self.traffic, f"draw_{kind}", None)
        if draw is not None:
            draw(t, event)

    def finished(self) -> Timeline:
        """Close what is open, and put the lanes in order."""
        if self.found.get(kinds.OFFERED):
            self.lanes.lane(SOURCE, _SOURCE)
            self.marks.append(
                Mark("found", SOURCE, self.observed, f"{self.found[kinds.OFFERED]} offered")
            )
        if kinds.OFFERED in self.found or kinds.RECORDED in self.found:
            self.lanes.lane(SINK, _SINK)
            rows = f"{self.found.get(kinds.RECORDED, 0)} recorded"
            if self.found.get(kinds.ABSORBED):
                rows += f", {self.found[kinds.ABSORBED]} absorbed"
            self.marks.append(Mark("found", SINK, self.observed, rows))
        for (kind, lane), (start, text) in self.open.items():
            self.bands.append(Band(kind, lane or None, start, None, text))
        for lane, (start, end, count) in self.refused.items():
            self.bands.append(Band("refused", lane, start, end, f"{count} connections refused"))
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
            self.bands.append(Band(kind, lane or None, start, t, f"{text}{more}"))

    # --- the runner -------------------------------------------------------------------------------

    def _node(self, t: int, event: kinds.Node) -> None:
        phase = event.get("phase")
        lane = self.lanes.lane(str(event.get("node")), _OTHER)
        who = f"{lane} #{event.get('incarnation')}, pid {event.get('pid')}"
        if phase == "started":
            self._begin("life", lane, t, who)
        elif phase == "ready":
            self._mark("ready", lane, t, f"{lane} is ready")
        elif phase == "paused":
            self._begin("pause", lane, t, f"{lane} is paused (SIGSTOP)")
        elif phase == "resumed":
            self._finish("pause", lane, t)
        elif phase == "exited":
            killed = bool(event.get("signal")) and not self.drained
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

    def _fault(self, t: int, event: Event) -> None:
        phase, name = event.get("phase"), str(event.get("fault"))
        if phase == "fired":
            t = (
                t if self.hit is None else min(t, self.hit)
            )  # the runner, which says so, learns of it a little later
            self.fired = t if self.fired is None else self.fired
            at = f" at {event['record']}" if event.get("record") else ""
            self._begin("fault", "", t, f"fault: {name}{at}")
        elif phase == "healed":
            self._finish("fault", "", t)
        elif phase == "forgot":
            text = (
                f"{event.get('file')}: {event.get('bytes_before')} bytes reverted to "
                f"{event.get('bytes_after')}"
            )
            self._mark("forgot", self._servers(), t, text)

    def _servers(self) -> str:
        return next((name for name, rank in self.lanes.ranks.items() if rank == _SERVER), WIRE)

    def _network(self, t: int, event: Event) -> None:
        lane = self.lanes.client(event)
        if event.get("phase") == "on":
            self._begin("network", lane, t, network_text(event))
        else:
            self._finish("network", lane, t)
            self._mark("healed", lane, t, network_text(event))

    def _drain(self, t: int, event: Event) -> None:
        phase = event.get("phase")
        if phase == "begun":
            self._begin("drain", "", t, "drain")
        else:
            self.drained = True
            because = f": {event.get('stage')}: {event.get('because')}" if phase == "failed" else ""
            self._finish("drain", "", t, f" {phase}{because}")

    def _failed(self, t: int, event: Event) -> None:
        self._mark(
            "kill", self.lanes.lane(WIRE, _WIRE), t, f"the run failed: {event.get('because')}"
        )

    # --- the programs -----------------------------------------------------------------------------

    def _taken(self, t: int, event: Event) -> None:
        """A program takes a record from the source; the runner says so of one that it feeds."""
        fed = self.lanes.fed() if event.get("by") == RUNNER else None
        lane = self.lanes.lane(fed, _SENDER) if fed else self.lanes.writer(event, _SENDER)
        record = str(event.get("record"))
        message = Message(t, self.lanes.lane(SOURCE, _SOURCE), lane, "take", "request", [record])
        message.target = record == self.traffic.target
        self.traffic.messages.append(message)

    def _delivered(self, t: int, event: Event) -> None:  # noqa: ARG002 - the wire draws it; this says who it is
        self.lanes.writer(event, _RECEIVER)

    def _ready(self, t: int, event: Event) -> None:
        if "partitions" in event:
            held = ", ".join(str(number) for number in event["partitions"]) or "none"
            self._mark("rebalance", self.lanes.writer(event), t, f"assigned: partitions {held}")

    def _resumed(self, t: int, event: Event) -> None:
        place = "" if event.get("partition") is None else f" partition {event['partition']}"
        self._mark(
            "resumed", self.lanes.writer(event), t, f"goes on from{place} {event.get('position')}"
        )

    def _transaction(self, t: int, event: Event) -> None:
        lane, outcome = self.lanes.writer(event), str(event.get("outcome"))
        if outcome == "begun":
            self._finish("transaction", lane, t, " never ended")
            self._begin("transaction", lane, t, f"transaction {event.get('transaction')}")
        else:
            error = f" ({event['error']})" if event.get("error") else ""
            self._finish("transaction", lane, t, f" {outcome}{error}")

    def _batch(self, t: int, event: Event) -> None:
        lane, phase, name = (
            self.lanes.writer(event, _RECEIVER),
            str(event.get("phase")),
            f"batch {event.get('batch')}",
        )
        if self.step.get(lane) == (name, phase):
            return  # one event per partition
        if self.open.get(("batch", lane), (0, name))[1] != name:
            self._finish("batch", lane, t, " never ended")
        self.step[lane] = (name, phase)
        self._begin("batch", lane, t, name)
        self._mark("step", lane, t, f"{name}: {phase}")
        if phase == "after-commit-log":
            self._finish("batch", lane, t, " committed")

    def _refused(self, t: int, event: Event) -> None:
        self._told(t, event, "refused")

    def _unknown(self, t: int, event: Event) -> None:
        self._told(t, event, "unknown")

    def _told(self, t: int, event: Event, word: str) -> None:
        self._mark(
            word, self.lanes.writer(event), t, f"{event.get('record')} {word}: {event.get('error')}"
        )

    def _failpoint(self, t: int, event: Event) -> None:
        name, record = event.get("name"), event.get("record")
        pid = event.get("pid")
        text = (
            f"failpoint {name}, hit {event.get('hit')}, record {record}, pid {pid}: "
            f"{event.get('action')}"
        )
        live = [
            lane
            for (kind, lane), (_, who) in self.open.items()
            if kind == "life" and who.endswith(f"pid {pid}")
        ]
        self.hit = t
        self._mark("hit", live[0] if live else self.lanes.writer(event), t, text)

    def _stopped(self, t: int, event: Event) -> None:
        self._mark("stopped", self.lanes.writer(event), t, f"stopped: {event.get('because')}")

    # --- the wire ---------------------------------------------------------------------------------

    def _rule(self, t: int, event: Event) -> None:
        phase = str(event.get("phase"))
        if phase in ("armed", "disarmed"):
            return
        direction = "request" if event.get("dir") != "response" else "response"
        message = self.traffic.requests.get((event.get("conn"), event.get("corr"), direction))
        struck = event.get("rule") not in kinds.WAVES
        if message is not None:
            message.hit |= struck
            if phase in STOPPED or (phase == "answered" and not event.get("forward")):
                message.fate = phase
            elif phase in ("released", "delivered"):
                message.fate = ""
        if hit := struck and phase == "hit":
            self.hit = t
        held = _listed(event.get("records"))
        error = f" by the wire: {event.get('error')}" if phase == "answered" else ""
        text = (
            f"{phase}{error}: {event.get('api')} {direction}{f' with {held}' if held else ''}, "
            f"{event.get('client')}"
        )
        self._mark("hit" if hit else "rule", self.lanes.lane(WIRE, _WIRE), t, text)

    def _conn(self, t: int, event: Event) -> None:
        if event.get("phase") == "refused":
            lane = self.lanes.client(event)
            start, _, count = self.refused.get(lane, (t, t, 0))
            self.refused[lane] = (start, t, count + 1)

    def _undecodable(self, t: int, event: Event) -> None:
        text = f"cannot read {event.get('api')} v{event.get('version')}: {event.get('because')}"
        self._mark("rule", self.lanes.lane(WIRE, _WIRE), t, text)


def _breaks(
    messages: Sequence[Message], bands: Sequence[Band], marks: Sequence[Mark], end: int
) -> Iterator[tuple[int, int]]:
    """Yield the long stretches in which nothing is told: only housekeeping passes there."""
    moments = {0, end, *(message.t for message in messages if message.weight > 1)}
    moments |= {mark.t for mark in marks} | {band.start for band in bands}
    moments |= {band.end for band in bands if band.end is not None}
    least = max(IDLE_LEAST, int(end * IDLE_SHARE))
    for before, after in itertools.pairwise(sorted(moments)):
        if after - before > least:
            yield before + IDLE_EDGE, after - IDLE_EDGE


def _number(text: str) -> object:
    return int(text) if text.lstrip("-").isdigit() else text


def _listed(records: Any) -> str:
    return (
        examples({str(record) for record in records}, BRIEF)
        if isinstance(records, tuple) and records
        else ""
    )
