"""What the authorities said of a cell, indexed by log and offset."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.places import NOWHERE
from harness.model.states import Hop

if TYPE_CHECKING:
    from harness.model.history import History
    from harness.model.plan import Plan

Log = tuple[str, int]
"""Topic and partition."""
Place = tuple[str, str, int]
"""Hop, topic and partition."""


class Statements:
    """What the authorities said, by place."""

    def __init__(self, plan: Plan, history: History) -> None:
        self.plan = plan
        self.history = history
        self.logs: dict[Place, kinds.Log] = {
            (e.hop, e.topic, e.partition): e for e in history.of(kinds.Log)
        }
        self.stored: dict[Place, list[kinds.Stored]] = defaultdict(list)
        self.held: dict[tuple[Log, int], kinds.Stored | kinds.Removed] = {}
        """By log and offset: copies in the topics between producer and consumer, and those that
        retention has removed.
        """
        self.known: set[str | None] = set()
        """The records of which that topic or queue has, or had, a copy."""
        self.queued: list[kinds.Stored] = []
        """Copies that are, or were, in queues between producer and consumer. For their places see
        :mod:`queuechecks`.
        """
        for copy in history.of(kinds.Removed, kinds.Stored, kinds.Moved):
            between = not isinstance(copy, kinds.Stored) or copy.hop == Hop.TOPIC
            if between:
                self.known.add(copy.record)
            if isinstance(copy, kinds.Moved) or copy.partition is None:
                self.queued += [copy] if between and isinstance(copy, kinds.Stored) else []
                continue
            if isinstance(copy, kinds.Stored):
                self.stored[copy.hop, copy.topic or "", copy.partition].append(copy)
            if between:
                self.held[self.log(copy), offset_in(copy)] = copy
        queues = {e.queue for e in history.of(kinds.Counted) if e.hop == Hop.TOPIC}
        self.mine = queues | {topic for hop, topic, _ in self.logs if hop == Hop.TOPIC}
        """The topic, or the queues, between producer and consumer."""
        self.given = {
            (self.log(e), offset_in(e), e.record)
            for e in history.of(kinds.Fetched)
            if e.reached and e.topic in self.mine
        }
        """Log, offset and record of what reached readers by the wire."""
        given = history.of(kinds.Delivered, kinds.Fetched) if plan.forgets else ()
        self.read = {
            (self.log(e), offset_in(e), e.record)
            for e in given
            if e.partition is not None
            # a program's own word names no topic
            and (isinstance(e, kinds.Delivered) or e.topic is None or e.topic in self.mine)
        }
        """Log, offset and record of what readers were given, if the log may have lost its copy
        since.
        """
        self.offered = {e.record: e.position for e in history.of(kinds.Offered)}
        self.added = Counter(
            topic for topic, _ in {(e.topic, e.partition) for e in history.of(kinds.Added)}
        )

    def log(self, event: kinds.OfCopy | kinds.Position | kinds.Committed) -> Log:
        """Return the log of a line about a topic between producer and consumer: without the name of
        the topic, if there is only one, for not every line has it.
        """
        topic = getattr(event, "topic", None) if self.plan.topics else None
        return topic or "", NOWHERE if event.partition is None else event.partition

    def saved(self) -> dict[Log, int]:
        """Return the saved position of each log."""
        return {self.log(e): e.offset for e in self.history.of(kinds.Position)}

    def of(self, hop: Hop) -> dict[Log, kinds.Log]:
        """Return the logs of a hop, by topic and partition."""
        return {
            (topic, partition): log
            for (at, topic, partition), log in self.logs.items()
            if at == hop
        }

    def partitions(self, hop: str, topic: str) -> int:
        """Return how many partitions a topic has: those with which it was created, and those added
        since.
        """
        return self.plan.logs[hop] + self.added[topic]


def offset_in(copy: kinds.OfCopy) -> int:
    """Return the offset of a copy, or that of nowhere."""
    return NOWHERE if copy.offset is None else copy.offset
