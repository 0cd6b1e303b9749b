"""A crash: several cells on one broker, each held at its own failure point; then the broker dies once, for all of them."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from harness.model.failures import CellFailure
from harness.model.waiting import WaitTimeoutError, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")

PATIENCE_S = 10.0
"""How long those who are held wait for those who are not: longer, and the clients of those who are held would give up."""
RETURN_S = 60.0
"""How long those who are done with the dead broker wait for those who still handle its files."""
DEATH, RETURN = "the broker's death", "the broker's return"


class SharedCrash:
    """The death and the return of a broker, each once for all of some cells. Safe to use from several threads.

    A cell that will not come any more has to :meth:`leave`. One that comes when the broker has died without it was not held at
    its failure point when the others were, and proves nothing; nobody waits for it any more.
    """

    def __init__(self, members: Iterable[str]) -> None:
        self._awaited = set(members)
        self._there: dict[str, set[str]] = {}
        self._results: dict[str, Any] = {}
        self._lock = threading.Lock()

    def leave(self, member: str) -> None:
        """Wait for this one no more."""
        with self._lock:
            self._awaited.discard(member)

    def die(self, member: str, kill: Callable[[], T]) -> T:
        """Wait until all are held, but not for ever; then ``kill``, once for all. Returns its result to each.

        Raises:
            CellFailure: the broker died without this one.
            Exception: whatever ``kill`` raises, to each of them.
        """
        with suppress(WaitTimeoutError):
            self._wait(DEATH, member, PATIENCE_S)
        with self._lock:
            if DEATH not in self._results:
                self._awaited &= self._there[DEATH]
        return self._once(DEATH, kill)

    def come_back(self, member: str, restart: Callable[[], T]) -> T:
        """Wait until all for whom it died are done with what they held and with its files; then ``restart``, once for all.

        Raises:
            WaitTimeoutError: one never is, and the broker must not come back to files that somebody still
                changes.
            Exception: whatever ``restart`` raises, to each of them.
        """
        self._wait(RETURN, member, RETURN_S)
        return self._once(RETURN, restart)

    def _wait(self, step: str, member: str, within_s: float) -> None:
        """Wait until everybody who is awaited is at a step, or has taken it."""
        with self._lock:
            if step in self._results:
                raise CellFailure(f"{step} did not wait for this cell, which was more than {PATIENCE_S:g} s behind; use --jobs 1")
            there = self._there.setdefault(step, set())
            there.add(member)
        wait_until(
            lambda: step in self._results or self._awaited <= there, within_s=within_s, because=f"all cells to await {step}"
        )

    def _once(self, step: str, act: Callable[[], T]) -> T:
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
    except BaseException as error:  # noqa: BLE001 - raised again by each of those it was done for
        return None, error
