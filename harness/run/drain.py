"""The drain: wait until all conditions hold and the sink is quiet. The first condition that fails
is remembered.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

from harness.model.scenario import Predicted
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.run.parts import Drained, DrainFields

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.model.cell import Cell

WITHIN_S = 90.0
"""How long the drain may take: longer than the transaction time-out plus the broker's clean-up
interval.
"""
STANDS_S = 6.0
"""If a cell must stand still: for how long nothing may happen before its drain counts as stuck,
ahead of the deadline.
"""
QUIET_S = 0.2
"""How long the sink must not change for the drain to be complete."""
GLANCE_S = 0.1
"""How often the drain checks whether anything moves."""
SINK = "sink"


class Check(NamedTuple):
    """A condition of the drain: its name, and a function that says why it does not hold (``None``:
    it does).

    ``costly``: the function asks a broker, so it is not called while results still arrive.
    """

    stage: str
    trouble: Callable[[], str | None]
    costly: bool = False


class StageEndedError(Exception):
    """A stage has ended by itself, so the drain cannot complete. ``stage``: its name; empty: that
    of the current check.

    ``given_up``: a supervisor has started it again and again, and it does not stay: that is why
    nothing moves.
    """

    def __init__(self, because: str, stage: str = "", *, given_up: bool = False) -> None:
        super().__init__(because)
        self.stage = stage
        self.given_up = given_up


class Checks:
    """Conditions in order; remembers the first that fails. ``unanswered``: the exceptions if a
    broker does not answer.
    """

    def __init__(
        self, checks: Sequence[Check], unanswered: tuple[type[Exception], ...] = ()
    ) -> None:
        self._checks = checks
        self._unanswered: tuple[type[Exception], ...] = (*unanswered, WaitTimeoutError)
        self.stage = checks[0].stage if checks else ""
        self.because = ""

    def hold(self, *, moving: bool = False) -> bool:
        """Say whether all conditions hold. While results are ``moving``, a costly one counts as
        failed.

        Raises:
            StageEndedError: a stage has ended by itself.
        """
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


class Stood(Protocol):
    """Hears of a silence that is over."""

    def __call__(self, still_s: float, *, moved: bool) -> None:
        """Hear how many seconds it lasted, and whether something moved then (else the silence is
        the last one).
        """


class Idle:
    """Tells whether nothing has moved for ``idle_s`` seconds, with the source exhausted.

    ``stood`` is called after every silence.
    """

    def __init__(
        self,
        progress: Callable[[], object],
        exhausted: Callable[[], bool],
        idle_s: float,
        stood: Stood | None = None,
    ) -> None:
        self._progress = progress
        self._exhausted = exhausted
        self._idle_s = idle_s
        self._stood = stood
        self._last: object = None
        self._since = time.monotonic()
        self._looked = -GLANCE_S

    @property
    def still_s(self) -> float:
        """For how many seconds nothing had moved at the last check."""
        return time.monotonic() - self._since

    def over(self) -> bool:
        """Say whether the silence has lasted ``idle_s``. Checks at most every ``GLANCE_S`` seconds,
        because a check is costly.
        """
        if time.monotonic() - self._looked < GLANCE_S:
            return False
        self._looked = time.monotonic()
        now = self._progress()
        if now != self._last or not self._exhausted():
            self._tell(moved=True)
            self._last, self._since = now, time.monotonic()
        over = self.still_s > self._idle_s
        if over:
            self._tell(moved=False)
        return over

    def _tell(self, *, moved: bool) -> None:
        if self._stood is not None:
            self._stood(self.still_s, moved=moved)


def stillness(
    cell: Cell, progress: Callable[[], object], exhausted: Callable[[], bool]
) -> Idle | None:
    """Return what tells whether a cell stands still for good; ``None``: only the drain's deadline
    tells.

    A cell whose prediction leaves records must stand still: ``STANDS_S`` seconds are enough. For
    others it is ``cell.still_s``.
    """
    stands = isinstance(cell.expectation, Predicted) and cell.expectation.left.must_show()
    still_s = STANDS_S if stands else cell.still_s
    return None if still_s is None else Idle(progress, exhausted, still_s, cell.stood)


class QuietSink:
    """A drain that is complete when all conditions hold and the sink does not change any more.

    ``size`` returns a value that changes while results arrive. ``still`` tells that the cell stands
    still for good, so that the drain need not wait for its deadline. ``more`` returns further
    fields for the history line of a complete drain.
    """

    def __init__(
        self,
        checks: Checks,
        size: Callable[[], object],
        still: Idle | None = None,
        more: Callable[[], DrainFields] = DrainFields,
    ) -> None:
        self._checks = checks
        self._sink_size = size
        self._still = still
        self._more = more
        self._size: object = None
        self._rests = False

    def wait(self) -> Drained:
        """Wait until everything is at rest, at most ``WITHIN_S`` seconds."""
        try:
            wait_until(self._over, within_s=WITHIN_S, because="the drain", poll_s=0.05)
        except WaitTimeoutError:
            pass
        except StageEndedError as error:
            return Drained(
                str(error),
                error.stage or self._checks.stage,
                {"at_once": True} if error.given_up else {},
            )
        return (
            Drained(more=self._more())
            if self._rests
            else Drained(self._checks.because, self._checks.stage)
        )

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
            wait_until(
                lambda: self._sink_size() != before,
                within_s=QUIET_S,
                because="the sink to stay quiet",
                poll_s=0.05,
            )
        except WaitTimeoutError:
            return True
        return False
