"""A volley: several cells on one broker, each held at its own failure point; then the broker dies once, for all of them."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from harness.core.waiting import WaitTimeoutError, wait_until
from harness.interfaces import CellFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")

PATIENCE_S = 10.0
"""How long those who are there wait for those who are not: longer, and the clients of those who are held would give up."""


class Volley:
    """Steps that each of some cells has to reach before one of them takes it, once, for all. Safe to use from several threads.

    A cell that will not come any more has to :meth:`leave`. One that comes when a step has been taken without it has not
    been held at its failure point when the others were, and proves nothing.
    """

    def __init__(self, members: Iterable[str]) -> None:
        self._awaited = set(members)
        self._there: dict[str, set[str]] = {}
        self._results: dict[str, Any] = {}
        self._lock = threading.Lock()

    def leave(self, member: str) -> None:
        """Wait for this one no more."""
        self._awaited.discard(member)

    def once(self, step: str, member: str, act: Callable[[], T]) -> T:
        """Wait for all others, then ``act``, once for all; return its result. ``step`` is told: "the broker's death".

        Raises CellFailure where it happened without this one, and whatever ``act`` raises, to each of them.
        """
        there = self._there.setdefault(step, set())
        with self._lock:
            if step in self._results:
                raise CellFailure(f"{step} did not wait for this cell, which was more than {PATIENCE_S:g} s behind; use --jobs 1")
            there.add(member)
        with suppress(WaitTimeoutError):  # those who are not there are told so when they come
            wait_until(lambda: step in self._results or self._awaited <= there, within_s=PATIENCE_S, because=f"all for {step}")
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
