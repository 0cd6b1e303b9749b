"""The phase of a stage's life in which a frame passes, derived from the wire's events before the
frame.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from harness.model import events as kinds
from harness.model.events import Outcome
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.model.history import History

Name: TypeAlias = tuple[int | None, int | None, str | None]
"""Identifies a frame in its history: connection, correlation id, direction."""
StageEvent: TypeAlias = (
    kinds.Sent
    | kinds.ProduceAnswer
    | kinds.Fetched
    | kinds.Committed
    | kinds.Acknowledged
    | kinds.Ending
)
"""Events, besides frames, that change what is in progress in a stage."""
CALM = "calm"
"""The stage is idle: it has no request, record or transaction in progress."""


def name_of(line: kinds.OfFrame) -> Name:
    """Return the name of a frame from its own event, or from the event of a rule that it hit."""
    return line.conn, line.corr, line.dir


@dataclass
class _Stage:
    """The requests, records and transactions in progress in one stage."""

    unanswered: set[str] = field(default_factory=set)
    """Requests with records, not answered yet."""
    open: set[str] = field(default_factory=set)
    """Records in a transaction that has not ended."""
    given: dict[tuple[str | None, int], int] = field(default_factory=dict)
    """By partition: the offset up to which the stage has received all records."""
    saved: dict[tuple[str | None, int], int] = field(default_factory=dict)
    in_hand: set[tuple[str, str]] = field(default_factory=set)
    """Queue messages that were delivered and not acknowledged yet, as (connection, record)."""
    joining: set[int | None] = field(default_factory=set)
    """Connections on which a member joins its group."""

    def phase(self) -> str:
        """Return the phase in words."""
        behind = any(offset > self.saved.get(place, 0) for place, offset in self.given.items())
        words = {
            "in transaction": bool(self.open),
            "sent unanswered": bool(self.unanswered),
            "position behind": behind,
            "in hand": bool(self.in_hand),
            "joining": bool(self.joining),
        }
        return ", ".join(word for word, holds in words.items() if holds) or CALM


def phases(history: History) -> Mapping[Name, str]:
    """Return the phase of each frame in a history: the phase of its stage right before
    the frame.
    """
    stages: dict[str, _Stage] = {}
    of: dict[str, _Stage] = {}
    found: dict[Name, str] = {}
    for event in history.events:
        if isinstance(event, kinds.Frame):
            stage = of[str(event.conn)] = stages.setdefault(str(event.role), _Stage())
            found[name_of(event)] = stage.phase()
            _join(stage, event)
        elif (
            isinstance(event, StageEvent) and event.by == "wire" and (conn := _conn_of(event)) in of
        ):
            _take(of[conn], event)
    return found


def _conn_of(event: StageEvent) -> str:
    """Return the connection that a line is about."""
    if isinstance(event, kinds.Fetched):
        return str(event.conn)
    return str(event.request).partition(":")[0]


def _join(stage: _Stage, line: kinds.Frame) -> None:
    if line.api == Api.JOIN_GROUP and line.dir == Direction.REQUEST:
        stage.joining.add(line.conn)
    elif line.api == Api.SYNC_GROUP and line.dir == Direction.RESPONSE and not line.error:
        stage.joining.discard(line.conn)


def _take(stage: _Stage, event: StageEvent) -> None:
    match event:
        case kinds.Sent():
            stage.unanswered.add(event.request)
            # of what has no id, nobody says when its transaction ends
            if event.transactional and event.record:
                stage.open.add(event.record)
        case kinds.ProduceAnswer():
            stage.unanswered.discard(event.request)
        case kinds.Fetched():
            _given(stage, event)
        case kinds.Committed():
            _saved(stage, event)
        case kinds.Acknowledged():
            if event.reached and event.outcome is None:
                stage.in_hand.discard((_conn_of(event), event.record))
        case kinds.Ending():
            if event.outcome == Outcome.TAKEN:
                stage.open.discard(event.record)


def _given(stage: _Stage, event: kinds.Fetched) -> None:
    if not event.reached:
        return
    if event.partition is None or event.offset is None:
        stage.in_hand.add((_conn_of(event), event.record))
        return
    place = event.topic, event.partition
    stage.given[place] = max(event.offset + 1, stage.given.get(place, 0))


def _saved(stage: _Stage, event: kinds.Committed) -> None:
    if event.reached:
        place = event.topic, event.partition
        stage.saved[place] = max(event.offset, stage.saved.get(place, 0))


def has_load(history: History, line: kinds.Frame, record: str, *, first: str = "") -> bool:
    """Say whether records other than ``record`` moved before a frame and after it. If not, a fault
    at the frame proves nothing. Before the ``first`` record of the source none can move.
    """
    moves = [
        e.t
        for e in history.of(kinds.Taken, kinds.Delivered, kinds.Sent, kinds.Fetched)
        if e.record != record
    ]
    return bool(moves) and (record == first or min(moves) < line.t) and line.t < max(moves)
