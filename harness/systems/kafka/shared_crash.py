"""One crash for several cells: each cell on a broker waits at its failure point, then the broker
dies once for all.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from harness.model.cell import STANDS_S
from harness.model.failures import CellFailure
from harness.model.waiting import WaitTimeoutError, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")

BEGIN_S = 30.0
"""How long (seconds) cells that are prepared wait for the others before their records flow. Nothing
is held then.
"""
RETURN_S = 60.0
"""How long (seconds) cells wait for others that still work on the dead broker's files."""
BEGIN, DEATH, RETURN = "the first record", "the broker's death", "the broker's return"


class SharedCrash:
    """Kills and restarts a broker once for several cells. Safe to use from several threads.

    A cell that will not come must call :meth:`leave`. A cell that comes after the broker died was
    not at its failure point in time; it proves nothing, and the others do not wait for it.
    """

    def __init__(self, members: Iterable[str], patience_s: float = STANDS_S) -> None:
        """``patience_s``: how long (seconds) cells at their failure point wait for the others."""
        self._awaited = set(members)
        self._patience_s = patience_s
        self._there: dict[str, set[str]] = {}
        self._results: dict[str, Any] = {}
        self._lock = threading.Lock()

    def leave(self, member: str) -> None:
        """Stop waiting for this cell."""
        with self._lock:
            self._awaited.discard(member)

    def begin(self, member: str) -> None:
        """Wait until all cells are prepared, for a limited time, so that all come to their failure
        points at about the same time.
        """
        with self._lock:
            there = self._there.setdefault(BEGIN, set())
            there.add(member)
        with suppress(WaitTimeoutError):
            self._await_all(BEGIN, there, BEGIN_S)

    def die(self, member: str, kill: Callable[[], T]) -> T:
        """Wait until all cells are held, for a limited time, then call ``kill`` once; return its
        result to each cell.

        Raises:
            CellFailure: the broker died before this cell came.
            Exception: whatever ``kill`` raises, for each cell.
        """
        with suppress(WaitTimeoutError):
            self._wait(DEATH, member, self._patience_s)

        def kill_for_those_there() -> T:
            self._awaited &= self._there[DEATH]
            return kill()

        return self._once(DEATH, kill_for_those_there)

    def come_back(self, member: str, restart: Callable[[], T]) -> T:
        """Wait until all cells are done with held frames and the broker's files, then call
        ``restart`` once; return its result.

        Raises:
            WaitTimeoutError: a cell is not done in time: the broker must not start on files that
                still change.
            Exception: whatever ``restart`` raises, for each cell.
        """
        self._wait(RETURN, member, RETURN_S)
        return self._once(RETURN, restart)

    def _wait(self, step: str, member: str, within_s: float) -> None:
        """Wait until all awaited cells have come to a step, or the step is done."""
        with self._lock:
            if step in self._results:
                raise CellFailure(
                    f"{step} did not wait for this cell, which did not come within "
                    f"{within_s:g} s; use --jobs 1"
                )
            there = self._there.setdefault(step, set())
            there.add(member)
        self._await_all(step, there, within_s)

    def _await_all(self, step: str, there: set[str], within_s: float) -> None:
        wait_until(
            lambda: step in self._results or self._awaited <= there,
            within_s=within_s,
            because=f"all cells to await {step}",
        )

    def _once(self, step: str, act: Callable[[], T]) -> T:
        """Call ``act`` once for all cells, with the lock held: no cell comes to the step
        meanwhile.
        """
        with self._lock:
            if step not in self._results:
                self._results[step] = _attempt(act)
        result, error = self._results[step]
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]


def _attempt(act: Callable[[], T]) -> tuple[T | None, BaseException | None]:
    try:
        return act(), None
    except BaseException as error:  # noqa: BLE001 - raised again for each cell
        return None, error
