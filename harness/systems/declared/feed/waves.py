"""Offer the load in three waves, so that there are records before the target and after
the fault.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from harness.model.cell import middle_of

if TYPE_CHECKING:
    from collections.abc import Callable

STILL_S = 8.0
"""After so many seconds without any movement the next wave comes anyway. Longer than an auto-commit
interval.
"""


class Waves:
    """Says which records may be offered: the first third, the second, which has the target, or the
    last.

    The second wave comes when the step of the fault was ``seen`` once, the last when the fault is
    healed. If nothing ``moves`` any more, a wave comes without its condition; but the last wave
    never comes between the time a fault has ``fired`` and the time it is healed.
    :func:`harness.model.cell.make_load` makes the thirds, and draws the target from the second.
    """

    def __init__(
        self,
        count: int,
        *,
        seen: Callable[[], bool],
        moves: Callable[[], object],
        fired: Callable[[], bool],
        still_s: float | None = None,
        alone_at: int | None = None,
        rest_s: float = 0.0,
    ) -> None:
        """``alone_at``: the record at this position is offered when nothing has moved for
        ``rest_s``, and the last wave begins right behind it. So it is alone on its way.
        """
        self._second, self._third = middle_of(count)
        self._alone_at, self._rest_s = alone_at, rest_s
        if alone_at is not None:
            self._third = alone_at
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

    def lets(self, position: int) -> bool:
        """Say whether the record at a position (from 1) may be offered now."""
        wave = 1 + (position > self._second) + (position > self._third)
        if position == self._alone_at and not self._all.is_set() and wave <= self._open:
            return self._is_still(self._rest_s)
        if self._all.is_set() or wave <= self._open:
            self._last = None
            return True
        self.waiting = wave > 2 and self._fired()  # noqa: PLR2004 - the last
        if not self.waiting and ((wave == 2 and self._seen()) or self._is_still(self._still_s)):  # noqa: PLR2004
            self._open, self._last = wave, None
            return True
        return False

    def _is_still(self, seconds: float) -> bool:
        now = self._moves()
        if self._last is None or now != self._last:
            self._last, self._since = now, time.monotonic()
        return time.monotonic() - self._since > seconds
