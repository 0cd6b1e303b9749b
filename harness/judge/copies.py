"""The copies of a cell: which places belong to one copy, which copies are gone, and why."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from harness.model.places import Removal
from harness.model.states import LastHop

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from harness.judge.row import Row

MOVED: Final = "moved"
"""The reason for a missing copy that was moved to a place about which the history has no other
event.
"""
_UNREAD: Final = frozenset(
    {
        Removal.RETENTION,
        Removal.COMPACTION,
        Removal.PURGE,
        Removal.DELETED,
        Removal.DUPLICATE,
    }
)
"""Removals that do not mean that the copy was read."""
_HOPS: Final = (
    (Removal.REJECT, LastHop.REJECTED),
    (Removal.LIMIT, LastHop.LIMIT),
    (Removal.EXPIRY, LastHop.EXPIRED),
    (Removal.DEAD_LETTER, LastHop.DEAD_LETTER),
    (MOVED, LastHop.MOVED),
    (Removal.ACK, LastHop.GIVEN_UP),
    (Removal.PURGE, LastHop.PURGED),
    (Removal.COMPACTION, LastHop.COMPACTED),
    (Removal.RETENTION, LastHop.DELETED),
    (Removal.DELETED, LastHop.DELETED),
    (Removal.DUPLICATE, LastHop.DUPLICATE),
)
"""The last hop of a record that was never delivered, by the reason why its copy was removed; the
farthest hop first.
"""


class Copies:
    """The copies of one cell, by their places. It is made from rows with all their fields
    (:mod:`harness.judge.rows`).
    """

    def __init__(
        self, stored: Collection[Row], removed: Collection[Row], moved: Collection[Row]
    ) -> None:
        self._same: dict[str, str] = {}
        self._moved = {place for row in moved for place in (row.place, row.to)} - {None}
        for row in moved:
            self._join(row.place, row.to)
        self._gone = {_spot(row) for row in (*removed, *moved) if row.place not in (None, row.to)}
        here = {_spot(row) for row in stored}
        self.untold = {row.record for row in removed if _spot(row) not in here}
        """Records with a copy that only its removal mentions."""
        self.unseen = self.untold - {
            row.record for row in removed if _spot(row) not in here and row.visible
        }
        """Those of ``untold`` whose copy no reader could see: it was in a log, in an aborted
        transaction.
        """
        self.why: dict[str | None, set[str | None]] = defaultdict(set)
        """By record: the reasons why its copies were removed."""
        told = {row.place for row in (*stored, *removed, *moved)} - {None}
        for row in removed:
            self.why[row.record].add(row.why)
        for row in moved:
            if row.to not in told:
                self.why[row.record].add(MOVED)

    def _join(self, place: str | None, to: str | None) -> None:
        if place is None or to is None:
            return
        one, other = self._first(place), self._first(to)
        if one != other:
            self._same[other] = one

    def _first(self, place: str) -> str:
        while place in self._same:
            place = self._same[place]
        return place

    def gone(self, copy: Row) -> bool:
        """Say whether a copy was removed from its place, or moved to another one."""
        return _spot(copy) in self._gone

    def of(self, place: str | None) -> str | None:
        """Return the one place that stands for all places of a copy. A copy that a broker has moved
        is no second copy.
        """
        return None if place is None else self._first(place)

    def count(self, rows: Iterable[Row]) -> int:
        """Return how many copies lines are about. A copy that was moved counts once."""
        rows = list(rows)
        moved = {self.of(row.place) for row in rows if row.place in self._moved}
        return len(moved) + sum(row.place not in self._moved for row in rows)


def _spot(row: Row) -> tuple[str | None, str | None]:
    """Where a line's copy stands: the logs of two topics have the same places. A line about a queue
    names no topic.
    """
    return row.topic, row.place


def removed(why: Collection[str | None], *, taken: bool, arrived: bool) -> LastHop:
    """Return the last hop of a record whose copies have all been removed, for these reasons.

    ``taken``: a program reported that it was given the record. ``arrived``: the wire saw it arrive.
    A record that a dead client had prefetched, and that then expired or was purged, was not
    delivered. One that arrived and was acknowledged was.

    >>> str(removed({Removal.ACK}, taken=False, arrived=True))
    'delivered, not recorded'
    >>> str(removed({Removal.RETENTION}, taken=False, arrived=True))
    'stored, deleted by retention'
    >>> str(removed({Removal.DUPLICATE}, taken=False, arrived=False))
    'taken for a duplicate, no other copy there'
    """
    if (taken and _UNREAD.intersection(why)) or ((taken or arrived) and Removal.ACK in why):
        return LastHop.DELIVERED
    return next((hop for reason, hop in _HOPS if reason in why), LastHop.DELETED)
