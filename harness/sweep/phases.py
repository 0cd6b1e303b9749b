"""The phase of a stage's life in which a frame passes, derived from the wire's events before the
frame.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from harness.model import events as kinds
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.model.history import Event, History

Name: TypeAlias = tuple[int | None, int | None, str | None]
"""Identifies a frame in its history: connection, correlation id, direction."""
CALM = "calm"
"""The stage is idle: it has no request, record or transaction in progress."""


def name_of(line: Event) -> Name:
    """Return the name of a frame from its own event, or from the event of a rule that it hit."""
    return line.get("conn"), line.get("corr"), line.get("dir")


@dataclass
class _Stage:
    """What is under way in one stage."""

    unanswered: set[str] = field(default_factory=set)
    """Requests with records, not answered yet."""
    open: set[str] = field(default_factory=set)
    """Records in a transaction that has not ended."""
    given: dict[tuple[str, int], int] = field(default_factory=dict)
    """By partition: behind which offset it has been given everything."""
    saved: dict[tuple[str, int], int] = field(default_factory=dict)
    in_hand: set[tuple[str, str]] = field(default_factory=set)
    """Of queues, connection and record: given, and not acknowledged yet."""
    joining: set[int] = field(default_factory=set)
    """Connections on which a member joins its group."""

    def phase(self) -> str:
        """Say it in words."""
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
        if event["event"] == kinds.FRAME:
            stage = of[str(event["conn"])] = stages.setdefault(str(event["role"]), _Stage())
            found[name_of(event)] = stage.phase()
            _join(stage, event)
        elif event["event"] in _TAKES and event["by"] == "wire":
            conn = str(event.get("request") or event.get("conn")).partition(":")[0]
            if conn in of:
                _TAKES[event["event"]](of[conn], event)
    return found


def _join(stage: _Stage, line: Event) -> None:
    if line["api"] == Api.JOIN_GROUP and line["dir"] == Direction.REQUEST:
        stage.joining.add(line["conn"])
    elif (
        line["api"] == Api.SYNC_GROUP
        and line["dir"] == Direction.RESPONSE
        and not line.get("error")
    ):
        stage.joining.discard(line["conn"])


def _sent(stage: _Stage, event: Event) -> None:
    stage.unanswered.add(event["request"])
    if event.get("transactional") and event.get(
        "record"
    ):  # of what has no id, nobody says when its transaction ends
        stage.open.add(str(event["record"]))


def _answered(stage: _Stage, event: Event) -> None:
    stage.unanswered.discard(event["request"])


def _given(stage: _Stage, event: Event) -> None:
    if event.get("reached") and "partition" not in event:
        stage.in_hand.add((str(event["conn"]), str(event["record"])))
    elif event.get("reached"):
        place = event["topic"], event["partition"]
        stage.given[place] = max(event["offset"] + 1, stage.given.get(place, 0))


def _saved(stage: _Stage, event: Event) -> None:
    if event.get("reached"):
        place = event["topic"], event["partition"]
        stage.saved[place] = max(event["offset"], stage.saved.get(place, 0))


def _acknowledged(stage: _Stage, event: Event) -> None:
    if event["reached"] and event["outcome"] is None:
        stage.in_hand.discard((event["request"].partition(":")[0], str(event["record"])))


def _ending(stage: _Stage, event: Event) -> None:
    if event["outcome"] == "taken":
        stage.open.discard(str(event["record"]))


_TAKES = {
    kinds.SENT: _sent,
    kinds.PRODUCE_ANSWER: _answered,
    kinds.FETCHED: _given,
    kinds.COMMITTED: _saved,
    kinds.ACKNOWLEDGED: _acknowledged,
    kinds.ENDING: _ending,
}


def has_load(history: History, line: Event, record: str) -> bool:
    """Say whether other records than ``record`` moved before a frame and after it. If not, a fault
    at it proves nothing.
    """
    moves = [
        e["t"]
        for e in history.of(kinds.TAKEN, kinds.DELIVERED, kinds.SENT, kinds.FETCHED)
        if e.get("record") != record
    ]
    return bool(moves) and min(moves) < line["t"] < max(moves)


__all__ = ["CALM", "Name", "has_load", "name_of", "phases"]
