"""Counts of how often each position of a partition is recorded, in pages. Pages recorded exactly
once take no memory.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from harness.audit.pages import PAGE, PAGE_BITS, decode, encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Page = np.ndarray[tuple[int, ...], np.dtype[np.uint32]]
    Counted = tuple[int, int, int]

LIVE: Final = 64
"""Pages of a partition that are kept uncompressed: 8 MiB."""


class Copies:
    """The counts of one partition's positions, from 0 to before ``end``."""

    def __init__(self, end: int) -> None:
        self.end = end
        self.once = 0
        """How many positions are recorded."""
        self.outside = 0
        """How many copies have a position that was never offered."""
        self._live: dict[int, Page] = {}
        self._cold: dict[int, bytes] = {}
        self._whole: set[int] = set()
        """Numbers of the pages in which every position is recorded once."""

    def add(self, first: int, count: int) -> None:
        """Count one copy of each of ``count`` positions, from ``first`` on."""
        low, high = max(first, 0), min(first + count, self.end)
        self.outside += count - max(0, high - low)
        while low < high:
            number, at = low >> PAGE_BITS, low & (PAGE - 1)
            many = min(PAGE - at, high - low)
            place = self._page(number)[at : at + many]
            self.once += int((place == 0).sum())
            place += 1
            low += many
        if len(self._live) > LIVE:
            self._cool()

    def anomalies(
        self, low: int, high: int
    ) -> tuple[list[tuple[int, int]], list[tuple[int, int, int]]]:
        """Return the positions of ``[low, high)`` that have no copy, and those that have more than
        one.

        Both as runs: first position and number of positions; runs of the second list also have the
        number of extra copies.
        """
        lost: list[tuple[int, int]] = []
        more: list[tuple[int, int, int]] = []
        for first, copies in self._parts(low, min(high, self.end)):
            for at, count, value in _runs(copies):
                if value == 0:
                    _join(lost, (first + at, count))
                elif value > 1:
                    _join(more, (first + at, count, value - 1))
        return lost, more

    def _parts(self, low: int, high: int) -> Iterator[tuple[int, Page]]:
        """Yield the counts from ``low`` to before ``high``, page by page, without the pages in
        which every count is one.
        """
        while low < high:
            number, at = low >> PAGE_BITS, low & (PAGE - 1)
            many = min(PAGE - at, high - low)
            if number not in self._whole:
                yield low, self._look(number)[at : at + many]
            low += many

    def _look(self, number: int) -> Page:
        if number in self._live:
            return self._live[number]
        return (
            decode(self._cold[number]) if number in self._cold else np.zeros(PAGE, dtype=np.uint32)
        )

    def _page(self, number: int) -> Page:
        if number not in self._live:
            if number in self._whole:
                self._whole.remove(number)
                self._live[number] = np.ones(PAGE, dtype=np.uint32)
            else:
                self._live[number] = self._look(number).copy()
                self._cold.pop(number, None)
        return self._live[number]

    def _cool(self) -> None:
        for number, page in self._live.items():
            if (page == 1).all():
                self._whole.add(number)
            else:
                self._cold[number] = encode(page)
        self._live.clear()


def _runs(copies: Page) -> Iterator[tuple[int, int, int]]:
    """Yield the runs of equal counts: start, length, count."""
    starts = (
        np.flatnonzero(np.concatenate([[True], copies[1:] != copies[:-1]]))
        if len(copies)
        else np.zeros(0, dtype=np.int64)
    )
    counts = np.diff(np.append(starts, len(copies)))
    yield from zip(starts.tolist(), counts.tolist(), copies[starts].tolist(), strict=True)


def added_copies(now: Iterable[Counted], then: Iterable[Counted]) -> list[Counted]:
    """Return the copies in ``now`` that are not in ``then``, as runs: first position, number of
    positions, copies of each.

    >>> added_copies([(0, 10, 2), (20, 1, 1)], [(0, 5, 2), (5, 5, 1)])
    [(5, 5, 1), (20, 1, 1)]
    """
    change: dict[int, int] = defaultdict(int)
    for runs, sign in ((now, 1), (then, -1)):
        for first, count, copies in runs:
            change[first] += sign * copies
            change[first + count] -= sign * copies
    found: list[Counted] = []
    level = 0
    for at, after in pairwise(sorted(change)):
        level += change[at]
        if level > 0:
            _join(found, (at, after - at, level))
    return found


def _join(found: list[Any], run: tuple[int, ...]) -> None:
    """Append a run, or lengthen the last run if the new one follows it with the same count."""
    if found and found[-1][0] + found[-1][1] == run[0] and found[-1][2:] == run[2:]:
        found[-1] = (found[-1][0], found[-1][1] + run[1], *run[2:])
    else:
        found.append(run)
