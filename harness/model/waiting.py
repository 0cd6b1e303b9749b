"""The one bounded wait. Nothing in the project sleeps for a fixed time in the hope that something has happened."""

from __future__ import annotations

import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from threading import Event

T = TypeVar("T")

POLL_S = 0.01


class WaitTimeoutError(Exception):
    """The condition did not become true in time; the message says which, and how long was waited."""

    def __init__(self, because: str, within_s: float) -> None:
        super().__init__(f"waited {within_s:g} s for {because}")
        self.because = because
        self.within_s = within_s


class WaitCancelledError(Exception):
    """Somebody else ended what the wait was part of."""


_cancel: ContextVar[Event | None] = ContextVar("cancel", default=None)


@contextmanager
def cancellable(event: Event) -> Iterator[None]:
    """Let ``event`` end every wait of this thread in the block by :class:`WaitCancelledError`."""
    token = _cancel.set(event)
    try:
        yield
    finally:
        _cancel.reset(token)


def wait_until(condition: Callable[[], T | None], *, within_s: float, because: str, poll_s: float = POLL_S) -> T:
    """Call ``condition`` until it returns something true, and return that. ``because`` names what is waited for.

    Raises:
        WaitTimeoutError: ``within_s`` seconds have passed.
        WaitCancelledError: the wait was cancelled by another thread.
    """
    deadline = time.monotonic() + within_s
    cancel = _cancel.get()
    while True:
        if cancel is not None and cancel.is_set():
            raise WaitCancelledError(because)
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise WaitTimeoutError(because, within_s)
        time.sleep(poll_s)
