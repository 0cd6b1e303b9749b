"""What readers of logs asked the wire for, and what they were given.

A reader of a log says in each request whether it wants committed records only. The wire sees that,
per connection. Nothing is assumed of a connection whose requests do not say it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, TypeAlias

from harness.model import events as kinds
from harness.model.places import NOWHERE, UNDECIDED
from harness.model.states import Hop

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from harness.model.events import Event

Connection: TypeAlias = tuple[str, int | None]
"""The wire that wrote a line, and its number of the connection."""
Spot: TypeAlias = tuple[int, int, str | None]
"""Partition, offset and record."""


class Readers:
    """The readers of one cell, from the lines of its wire.

    ``first``: when the history begins; sentences count the time from there.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self.first = 0
        self.fetched: list[kinds.Fetched] = []
        """The records of logs that reached a reader, in order."""
        self._levels: dict[Connection, set[bool]] = defaultdict(set)
        self._topics: dict[Connection, set[str | None]] = defaultdict(set)
        self._results: dict[Spot, list[kinds.OfCopy]] = defaultdict(list)
        self._delivered: dict[Spot, list[kinds.OfCopy]] = defaultdict(list)
        self._copies: list[kinds.Stored] = []
        self._offered: set[str] = set()
        for event in events:
            self.first = min(self.first or event.t, event.t)
            match event:
                case kinds.Frame(committed_only=bool() as level, conn=int() as conn):
                    self._levels[event.by, conn].add(level)
                case kinds.Fetched():
                    self._topics[event.by, event.conn].add(event.topic)
                    if event.reached and event.at is not None:
                        self.fetched.append(event)
                case kinds.Stored() if _is_aborted(event):
                    self._copies.append(event)
                case kinds.Recorded(intact=True) | kinds.Delivered() if event.at is not None:
                    spots = self._results if event.event == "recorded" else self._delivered
                    spots[*event.at, event.record].append(event)
                case kinds.Offered():
                    self._offered.add(event.record)
        self._given: dict[tuple[str | None, Spot], list[kinds.Fetched]] = defaultdict(list)
        for given in self.fetched:
            if given.at is not None and self.committed_only(given):
                self._given[given.topic, (*given.at, given.record)].append(given)

    def committed_only(self, given: kinds.Fetched) -> bool:
        """Say whether all requests of the reader's connection asked for committed records only."""
        return self._levels.get((given.by, given.conn)) == {True}

    def seconds(self, event: Event) -> str:
        """Return when an event was, counted from the beginning of the history."""
        return f"at {(event.t - self.first) / 1e9:.3f} s"

    def read_aborted(self) -> list[tuple[kinds.Stored, str]]:
        """Return the aborted copies of logs that were given away, each with who got it.

        A reader of committed records got it, by the wire; or the sink has a result that was made
        from it. A reader that asks for uncommitted records may get them, and the results are then
        its own.
        """
        told = ((copy, self._who_got(copy)) for copy in self._copies)
        return [
            (copy, who)
            for copy, who in told
            if copy.intact and copy.record in self._offered and who is not None
        ]

    def _who_got(self, copy: kinds.Stored) -> str | None:
        if copy.at is None:
            return None
        spot = (*copy.at, copy.record)
        for given in self._given.get((copy.topic, spot), ()):
            if _of_one_epoch(given, copy):
                return f"reached a reader of committed records {self.seconds(given)}"
        if copy.hop != Hop.TOPIC or self._asked(copy.topic, committed=False):
            return None
        if _found(self._results.get(spot, ()), copy):
            return "is recorded"
        if self._asked(copy.topic, committed=True) and _found(self._delivered.get(spot, ()), copy):
            return "was delivered to a reader of committed records"
        return None

    def _asked(self, topic: str | None, *, committed: bool) -> bool:
        """Say whether a reader of this topic asked for committed records only, or for all of
        them.

        A connection on which nothing was given may be any topic's.
        """
        return any(
            committed in levels and topic in (self._topics.get(conn) or {topic})
            for conn, levels in self._levels.items()
        )


def _is_aborted(copy: kinds.Stored) -> bool:
    return copy.at is not None and not copy.visible and copy.waiting not in UNDECIDED


def _found(told: Iterable[kinds.OfCopy], copy: kinds.OfCopy) -> bool:
    return any(_of_one_epoch(line, copy) for line in told)


def _of_one_epoch(one: kinds.OfCopy, other: kinds.OfCopy) -> bool:
    """Say whether two lines about one offset may be about one copy. Some programs know no epoch."""
    unknown = (None, NOWHERE)
    return one.epoch == other.epoch or one.epoch in unknown or other.epoch in unknown


def told_of(read: Collection[tuple[kinds.Stored, str]], most: int = 3) -> Iterator[str]:
    """Yield a sentence for each of the first aborted copies that were given away."""
    for copy, who in list(read)[:most]:
        yield (
            f"the aborted copy of {copy.record} in {copy.topic}/{copy.partition} at {copy.offset} "
            f"{who}"
        )
