"""Counts how far the load has come, by what is done for the first time."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

MOST_TOPICS = 100
"""In how many topics steps count: a program may write into new ones for ever."""


class FirstSteps:
    """The steps of records that were seen for the first time, and the positions that were ahead of
    all before.

    Their number grows while the load gets on, and is bounded by the load, for each topic of the
    first :data:`MOST_TOPICS`. What is done again does not count, nor do records that a program
    makes up. A stage's positions in a topic count as often as the load has records: a program that
    sends again what it reads moves them for ever.
    """

    def __init__(self, known: Collection[str]) -> None:
        """``known``: the ids of the load's records. Only these count."""
        self._known = known
        self._seen: set[tuple[str, str, str | None, str]] = set()
        self._topics_of: dict[tuple[str, str], dict[str | None, None]] = defaultdict(dict)
        self._furthest: dict[tuple[str | None, str | None, int], int] = {}
        self._moves: Counter[tuple[str, str | None]] = Counter()
        self._topics: set[str | None] = set()
        self._steps = 0

    @property
    def count(self) -> int:
        """How many there were."""
        most = len(self._known)
        return self._steps + sum(min(moves, most) for moves in self._moves.values())

    def did(self, step: str) -> set[str]:
        """Return the records with which some stage did a step."""
        return {record for done, _, _, record in self._seen if done == step}

    def met(self, role: str, topic: str | None, record: str) -> None:
        """Note that a stage sent a record to a topic, or was given it from there."""
        self._topics_of[role, record][topic] = None

    def note(self, step: str, role: str, topic: str | None, record: str) -> bool:
        """Note a step of a stage with a record in a topic; say whether it is the first such."""
        first = step, role, topic, record
        if first in self._seen:
            return False
        self._seen.add(first)
        self._steps += record in self._known and self._counts(topic)
        return True

    def note_in_some_topic(self, step: str, role: str, record: str) -> None:
        """Note a step that names no topic, at most once for each topic in which the stage met the
        record.
        """
        for topic in self._topics_of.get((role, record), ("",)):
            if self.note(step, role, topic, record):
                break

    def note_position(
        self, role: str, group: str | None, topic: str | None, partition: int, offset: int
    ) -> None:
        """Note that a stage saved a position."""
        log = group, topic, partition
        if offset > self._furthest.get(log, 0):
            self._furthest[log] = offset
            self._moves[role, topic] += self._counts(topic)

    def _counts(self, topic: str | None) -> bool:
        if len(self._topics) < MOST_TOPICS:
            self._topics.add(topic)
        return topic in self._topics
