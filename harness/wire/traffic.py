"""What passes for one role of a cell, counted: bytes, pieces, connections, answers and waits."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field, replace
from typing import TYPE_CHECKING

from harness.wire.messages import Traffic

if TYPE_CHECKING:
    from collections.abc import Iterable

LEAST_S = 1e-6
"""The shortest wait, in seconds. It is not zero, because it divides."""


@dataclass(slots=True)
class Meter:
    """The counts of one role of a cell, since ``since`` (seconds of the loop's clock)."""

    since: float = 0.0
    _ended: Traffic = field(default_factory=Traffic)
    _before: Traffic = field(default_factory=Traffic)
    _answers: int = 0
    _longest_s: float = 0.0
    _asked: int = 0
    _waited_s: float = 0.0

    def over(self, traffic: Traffic) -> None:
        """Add the traffic of a connection that has ended."""
        self._ended = total((self._ended, traffic))

    def answered(self, size: int, began: float, now: float, *, waits: bool) -> None:
        """Count the answer to a request of ``size`` bytes that was forwarded at ``began``.
        ``waits``: the protocol delays this answer by design.
        """
        if began < self.since:
            return
        self._answers += 1
        self.waited(began, now, waits=waits)
        if not waits:
            self._asked += size
            self._waited_s += now - began

    def waited(self, began: float, now: float, *, waits: bool) -> None:
        """Record how long a request has waited so far."""
        if began >= self.since and not waits:
            self._longest_s = max(self._longest_s, now - began)

    def read(self, live: Iterable[Traffic]) -> Traffic:
        """Return the counts. ``live``: the traffic of the open connections."""
        now = astuple(total((self._ended, *live)))
        counts = Traffic(
            *(one - other for one, other in zip(now, astuple(self._before), strict=True))
        )
        rate = self._asked / max(self._waited_s, LEAST_S)
        return replace(counts, answers=self._answers, longest_s=self._longest_s, rate=rate)

    def restart(self, now: float, live: Iterable[Traffic]) -> None:
        """Reset the counts. Requests that were forwarded before do not count later."""
        self._before = total((self._ended, *live))
        self.since = now
        self._answers, self._longest_s, self._asked, self._waited_s = 0, 0.0, 0, 0.0


def total(parts: Iterable[Traffic]) -> Traffic:
    """Return the total traffic of several connections."""
    return Traffic(*(sum(column) for column in zip(*map(astuple, parts), strict=True)))
