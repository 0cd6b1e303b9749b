"""Load in three waves, so that there is always something before the target and something behind it."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from harness.model.cell import middle_of

if TYPE_CHECKING:
    from collections.abc import Callable

STILL_S = 8.0
"""How long nothing must have moved for the next wave to come without what it waits for: longer than an auto-commit interval."""


class Waves:
    """Says which records may be offered: a third, then the one with the target in it, then the last.

    The second comes when the step that the fault is at was ``seen`` once, the last when the fault is healed. Where nothing
    ``moves`` any more, each comes without that; the last not while a fault that has ``fired`` is not healed. Thirds are those
    of :func:`harness.model.cell.make_load`, which draws the target from the second.
    """

    def __init__(
        self, count: int, *, seen: Callable[[], bool], moves: Callable[[], object], fired: Callable[[], bool],
        still_s: float | None = None,
    ) -> None:  # fmt: skip
        self._second, self._third = middle_of(count)
        self._seen = seen
        self._moves = moves
        self._fired = fired
        self._still_s = STILL_S if still_s is None else still_s
        self._open = 1
        self._all = threading.Event()
        self._last: object = None
        self._since = time.monotonic()
        self.waiting = False
        """Whether what is left waits for the fault to be healed: until then there is nothing to offer."""

    def release(self) -> None:
        """Let everything through: the fault is healed, or wants all the rest at once."""
        self._all.set()
        self.waiting = False

    def lets(self, position: int) -> bool:
        """Say whether the record at a position (from 1) may be offered now."""
        wave = 1 + (position > self._second) + (position > self._third)
        if self._all.is_set() or wave <= self._open:
            self._last = None
            return True
        self.waiting = wave > 2 and self._fired()  # noqa: PLR2004 - the last
        if not self.waiting and ((wave == 2 and self._seen()) or self._is_still()):  # noqa: PLR2004
            self._open, self._last = wave, None
            return True
        return False

    def _is_still(self) -> bool:
        now = self._moves()
        if self._last is None or now != self._last:
            self._last, self._since = now, time.monotonic()
        return time.monotonic() - self._since > self._still_s
