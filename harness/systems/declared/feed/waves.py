"""Offer the load in waves, so that there are records before each target and after each fault."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from itertools import chain
from typing import TYPE_CHECKING

from harness.model.cell import middles_of

if TYPE_CHECKING:
    from collections.abc import Callable

STILL_S = 8.0
"""After so many seconds without any movement the next wave comes anyway. Longer than an auto-commit
interval.
"""


class Waves:
    """Says which records may be offered. Every second wave has a target.

    A wave with a target comes when the step of the fault was ``seen`` once, the next one when the
    fault is healed (:meth:`go_on`, :meth:`release`). If nothing ``moves`` any more, a wave comes
    without its condition; but no wave comes between the time a fault has ``fired`` and the time it
    is healed. :func:`harness.model.cell.middles_of` makes the waves; targets are drawn from them.
    """

    def __init__(
        self,
        count: int,
        *,
        seen: Callable[[], bool],
        moves: Callable[[], object],
        fired: Callable[[], int],
        targets: int = 1,
        still_s: float | None = None,
        target_at: int = 0,
        alone_at: int | None = None,
        rest_s: float = 0.0,
    ) -> None:
        """``fired``: returns how often the fault has fired, at one of so many ``targets``.

        ``target_at``: where the only target is; behind the middle of the load the last wave begins
        one record later than it, because the step may come with the next record.

        ``alone_at``: the record at this position is offered when nothing has moved for
        ``rest_s``, and the last wave begins right behind it. So it is alone on its way.
        """
        self._ends = list(chain.from_iterable(middles_of(count, targets)))
        """Behind which position each wave but the last ends."""
        if targets == 1 and target_at > self._ends[1]:
            self._ends[1] = target_at + 1
        self._alone_at, self._rest_s = alone_at, rest_s
        if alone_at is not None:
            self._ends[1] = alone_at
        self._healed = 0
        self._seen = seen
        self._moves = moves
        self._fired = fired
        self._still_s = STILL_S if still_s is None else still_s
        self._open = 1
        self._all = threading.Event()
        self._last: object = None
        self._since = time.monotonic()
        self.waiting = False
        """Whether the remaining records wait until the fault is healed."""

    def release(self) -> None:
        """Let all records through: the fault is healed, or needs all remaining records at once."""
        self._all.set()
        self.waiting = False

    def go_on(self) -> None:
        """Let the records through up to those behind the next target: the fault is healed at this
        one.
        """
        self._healed += 1
        self.waiting = False

    def lets(self, position: int) -> bool:
        """Say whether the record at a position (from 1) may be offered now."""
        wave = 1 + bisect_left(self._ends, position)
        has_target = wave % 2 == 0
        if position == self._alone_at and not self._all.is_set() and wave <= self._open:
            return self._is_still(self._rest_s)
        if self._all.is_set() or wave <= self._open:
            self._last = None
            return True
        self.waiting = not has_target and self._fired() > self._healed
        ready = self._seen() if has_target else self._healed >= wave // 2
        if not self.waiting and (ready or self._is_still(self._still_s)):
            self._open, self._last = wave, None
            return True
        return False

    def _is_still(self, seconds: float) -> bool:
        now = self._moves()
        if self._last is None or now != self._last:
            self._last, self._since = now, time.monotonic()
        return time.monotonic() - self._since > seconds
