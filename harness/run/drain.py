"""The drain: conditions in their order, of which the first that does not hold is remembered; then a quiet sink."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.model.scenario import Predicted
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.run.parts import Drained

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.model.cell import Cell

WITHIN_S = 90.0
"""How long the drain may take: more than transaction time-out and the broker's clean-up interval together."""
STANDS_S = 6.0
"""How long nothing may happen in a cell that must stand still, before it counts as stuck: nobody waits for the deadline."""
QUIET_S = 0.2
"""How long the sink must not change for the drain to be complete."""
GLANCE_S = 0.1
"""How often it is looked whether anything moves."""
SINK = "sink"


class Check(NamedTuple):
    """A condition of the drain: what it is called, and what says why it does not hold (``None``: it does).

    ``costly``: it asks a broker, and is not asked while results still arrive.
    """

    stage: str
    trouble: Callable[[], str | None]
    costly: bool = False


class StageEndedError(Exception):
    """A stage has ended by itself: no drain can complete any more. ``stage``: where, if not at the check that was asked."""

    def __init__(self, because: str, stage: str = "") -> None:
        super().__init__(because)
        self.stage = stage


class Checks:
    """Conditions in order; the first that does not hold is remembered. ``unanswered``: what is raised by who cannot be asked."""

    def __init__(self, checks: Sequence[Check], unanswered: tuple[type[Exception], ...] = ()) -> None:
        self._checks = checks
        self._unanswered: tuple[type[Exception], ...] = (*unanswered, WaitTimeoutError)
        self.stage = checks[0].stage if checks else ""
        self.because = ""

    def hold(self, *, moving: bool = False) -> bool:
        """Whether all hold; while results are ``moving``, none does that is costly to ask. Raises StageEndedError."""
        for stage, trouble, costly in self._checks:
            if moving and costly:
                self.stage, self.because = SINK, "the sink is not quiet"
                return False
            self.stage = stage
            try:
                found = trouble()
            except self._unanswered as error:
                found = f"the observer was not answered: {error}"
            if found:
                self.because = found
                return False
        return True


class Idle:
    """Whether everything has been still for ``idle_s`` with the source exhausted.

    ``stood`` is told of every silence: how long it was, and whether something ``moved`` then, or it was long enough.
    """

    def __init__(
        self, progress: Callable[[], Any], exhausted: Callable[[], bool], idle_s: float,
        stood: Callable[[float, bool], None] = lambda _still_s, _moved: None,
    ) -> None:  # fmt: skip
        self._progress = progress
        self._exhausted = exhausted
        self._idle_s = idle_s
        self._stood = stood
        self._last: Any = None
        self._since = time.monotonic()
        self._looked = -GLANCE_S

    @property
    def still_s(self) -> float:
        """For how long, as seen when that was asked last."""
        return time.monotonic() - self._since

    def over(self) -> bool:
        """Look once more, unless somebody has only just done so: it costs more than the asking."""
        if time.monotonic() - self._looked < GLANCE_S:
            return False
        self._looked = time.monotonic()
        now = self._progress()
        if now != self._last or not self._exhausted():
            self._stood(self.still_s, True)  # noqa: FBT003 - of a callable
            self._last, self._since = now, time.monotonic()
        over = self.still_s > self._idle_s
        if over:
            self._stood(self.still_s, False)  # noqa: FBT003
        return over


def stillness(cell: Cell, progress: Callable[[], Any], exhausted: Callable[[], bool]) -> Idle | None:
    """Return what says that a cell stands still for good; ``None``: it has all the time of a drain.

    One of which records are predicted to be left stands still for ever. All others say themselves for how long nothing may move.
    """
    stands = isinstance(cell.expectation, Predicted) and cell.expectation.left.must_show()
    still_s = STANDS_S if stands else cell.still_s

    def stood(still_s: float, moved: bool) -> None:  # noqa: FBT001 - of a callable
        cell.stood(still_s, moved=moved)

    return None if still_s is None else Idle(progress, exhausted, still_s, stood)


class QuietSink:
    """A drain that is over when all conditions hold and the sink does not change any more.

    ``size`` returns a value that changes while results arrive. ``still``: where a cell must stand still for ever, what says that
    it does; nobody waits for the deadline then.
    """

    def __init__(self, checks: Checks, size: Callable[[], Any], still: Idle | None = None) -> None:
        self._checks = checks
        self._sink_size = size
        self._still = still
        self._size: Any = None
        self._rests = False

    def wait(self) -> Drained:
        """Wait until everything is at rest, at most for WITHIN_S."""
        try:
            wait_until(self._over, within_s=WITHIN_S, because="the drain", poll_s=0.05)
        except WaitTimeoutError:
            pass
        except StageEndedError as error:
            return Drained(str(error), error.stage or self._checks.stage)
        return Drained() if self._rests else Drained(self._checks.because, self._checks.stage)

    def _over(self) -> bool:
        self._rests = self._is_at_rest()
        return self._rests or (self._still is not None and self._still.over())

    def _is_at_rest(self) -> bool:
        size = self._sink_size()
        moved, self._size = size != self._size, size
        return self._checks.hold(moving=moved) and self._is_quiet()

    def _is_quiet(self) -> bool:
        before = self._sink_size()
        self._checks.stage, self._checks.because = SINK, "the sink is not quiet"
        try:
            wait_until(lambda: self._sink_size() != before, within_s=QUIET_S, because="the sink to stay quiet", poll_s=0.05)
        except WaitTimeoutError:
            return True
        return False
