"""The lanes of a timeline, one for each node, and the messages drawn between them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from harness.model import events as kinds
from harness.model.events import (
    Direction,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from harness.model.history import Event

SOURCE, WIRE, SINK = "source", "wire", "sink"
AT_SOURCE, AT_SENDER, AT_WIRE, AT_SERVER, AT_OTHER, AT_RECEIVER, AT_SINK = range(7)
"""The order of lanes: that in which a record passes them."""
BRIEF = 3
"""How many records a message names."""
SENDERS = ("producer", "processor", "driver")
"""Roles that may take records from the source. The first one that a pipeline has does so."""
Carried: TypeAlias = (
    kinds.OfSend
    | kinds.ProduceAnswer
    | kinds.Committed
    | kinds.CommitAnswer
    | kinds.EndTxn
    | kinds.EndTxnAnswer
)
"""Events about the content of a request or its response."""


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
        """Its importance: 3 if a rule hit or stopped it or it carried the target, 2 if it carried
        records, positions or an outcome, else 1.
        """
        return 3 if self.hit or self.fate or self.target else 2 if self.notes else 1

    @property
    def note(self) -> str:
        """What it carried, in a few words."""
        more = len(self.notes) - BRIEF
        return ", ".join(self.notes[:BRIEF]) + (f" and {more} more" if more > 0 else "")


class Lanes:
    """The lanes so far; finds the lane to which an event belongs."""

    def __init__(self, events: Sequence[Event]) -> None:
        lives = [event for event in events if isinstance(event, kinds.Node)]
        self._nodes = {event.node: event.role for event in lives}
        self._writers = {f"{event.node}-{event.incarnation}": event.node for event in lives}
        self._clients = [
            (re.compile(rf"(^|\.){re.escape(name)}(\.\d+)?(\.|$)"), name) for name in self._nodes
        ]
        self.ranks: dict[str, int] = {}
        """The lanes, and where each stands."""

    def lane(self, name: str, rank: int) -> str:
        """Return a lane by its name, and note where it stands among the others."""
        before = self.ranks.get(name, AT_OTHER)
        if before == AT_OTHER or (
            rank != AT_OTHER and rank > before
        ):  # a node that sends and receives is drawn with the receivers
            self.ranks[name] = rank
        return name

    def fed(self) -> str | None:
        """Return the lane of the program that the runner gives records to."""
        named = (
            (role, name) for role in SENDERS for name, its in self._nodes.items() if its == role
        )
        return next((name for _, name in named), None)

    def writer(self, event: Event, rank: int = AT_OTHER) -> str:
        """Return the lane of the program that wrote an event."""
        by = event.by
        helped = (
            node for name, node in self._writers.items() if by.startswith(f"{name}-")
        )  # part of a program: its JVM
        return self.lane(self._writers.get(by) or next(helped, by), rank)

    def client(self, client: str | None, role: str | None) -> str:
        """Return the lane of the program at the client's end of a connection."""
        client, role = client or "", role or "client"
        found = next((name for pattern, name in self._clients if pattern.search(client)), None)
        if found is None:
            having = [name for name, its in self._nodes.items() if its == role]
            found = having[0] if len(having) == 1 else role
        return self.lane(found, AT_OTHER)


class Traffic:
    """Turns the wire's events into messages between lanes."""

    def __init__(self, lanes: Lanes, targets: Collection[str]) -> None:
        self._lanes = lanes
        self.targets = frozenset(targets)
        self.messages: list[Message] = []
        self.requests: dict[tuple[object, ...], Message] = {}
        self._answers: dict[object, Message] = {}

    def draw_frame(self, t: int, event: kinds.Frame) -> None:
        """Add a message for a frame, from lane to lane."""
        client = self._lanes.client(event.client, event.role)
        server = self._lanes.lane(event.node or "server", AT_SERVER)
        self._lanes.lane(WIRE, AT_WIRE)
        asked = event.dir != Direction.RESPONSE
        start, end = (client, server) if asked else (server, client)
        direction = Direction.REQUEST if asked else Direction.RESPONSE
        message = Message(t, start, end, str(event.api), str(direction))
        if event.error:
            message.notes.append(f"error {event.error}")
        self.messages.append(message)
        self.requests[event.conn, event.corr, direction] = message
        if not asked:
            self._answers[event.conn] = message

    def _about(self, event: Carried, direction: Direction) -> Message | None:
        conn, _, corr = str(event.request).partition(":")
        return self.requests.get((as_number(conn), as_number(corr), direction))

    def _carried(self, event: Carried, direction: Direction, note: str, *, reached: bool) -> None:
        message = self._about(event, direction)
        if message is not None:
            message.notes.append(note)
            if isinstance(event, kinds.OfSend | kinds.ProduceAnswer):
                message.target |= self._is_target(event.record)
            if not reached and not message.fate:
                message.fate = "never arrived"

    def _is_target(self, record: str) -> bool:
        return record in self.targets

    def draw_send(self, _: int, event: kinds.OfSend) -> None:
        """Add a record to its request, or say that the wire dropped this request."""
        reached = isinstance(event, kinds.Sent)
        self._carried(event, Direction.REQUEST, event.record, reached=reached)
        message = self._about(event, Direction.REQUEST)
        if reached and message is not None and self._lanes.ranks.get(message.start) == AT_OTHER:
            self._lanes.lane(message.start, AT_SENDER)

    def draw_produce_answer(self, _: int, event: kinds.ProduceAnswer) -> None:
        """Add a record's offset, or its error, to the response."""
        said = f"{event.record} error {event.error}" if event.error else f"@{event.offset}"
        self._carried(event, Direction.RESPONSE, said, reached=event.reached is not False)

    def draw_fetched(self, _: int, event: kinds.Fetched) -> None:
        """Add a fetched record to its response."""
        message = self._answers.get(event.conn)
        if message is not None:
            message.notes.append(f"{event.record} {event.partition}@{event.offset}")
            message.target |= self._is_target(event.record)
            if event.reached is False and not message.fate:
                message.fate = "never arrived"
            if self._lanes.ranks.get(message.end) == AT_OTHER:
                self._lanes.lane(message.end, AT_RECEIVER)

    def draw_commit(self, _: int, event: kinds.Committed | kinds.CommitAnswer) -> None:
        """Add a position to its commit request or to the response."""
        direction, error = Direction.REQUEST, ""
        if isinstance(event, kinds.CommitAnswer):
            direction, error = Direction.RESPONSE, f" error {event.error}" if event.error else ""
        note = f"{event.partition}@{event.offset}{error}"
        self._carried(event, direction, note, reached=event.reached is not False)

    def draw_end_txn(self, _: int, event: kinds.EndTxn) -> None:
        """Add commit or abort to an EndTxn request."""
        note = "commit" if event.commit else "abort"
        self._carried(event, Direction.REQUEST, note, reached=event.reached is not False)

    def draw_end_txn_answer(self, _: int, event: kinds.EndTxnAnswer) -> None:
        """Add the result of EndTxn to its response."""
        note = f"error {event.error}" if event.error else "done"
        self._carried(event, Direction.RESPONSE, note, reached=event.reached is not False)


def as_number(text: str) -> object:
    """Return a text of digits as a number, every other one as it is."""
    return int(text) if text.lstrip("-").isdigit() else text
