"""The one way to wait, with a time limit. No code in the project sleeps for a fixed time in the
hope that something happens.
"""

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
LATE = 0.02
"""Which part of its seconds so far may pass until a wait asks again: many waits at once would else
keep a core busy.
"""
LATE_S = 0.05
"""How late (seconds) a wait may notice for that reason."""


class WaitTimeoutError(Exception):
    """The condition did not become true in time. The message names it, and says how many seconds
    the wait took.
    """

    def __init__(self, because: str, within_s: float) -> None:
        super().__init__(f"waited {within_s:g} s for {because}")
        self.because = because
        self.within_s = within_s


class WaitCancelledError(Exception):
    """Another thread cancelled the work that the wait was part of."""


_cancel: ContextVar[Event | None] = ContextVar("cancel", default=None)


@contextmanager
def cancellable(event: Event) -> Iterator[None]:
    """Within the block, end every wait of this thread with :class:`WaitCancelledError` when
    ``event`` is set.
    """
    token = _cancel.set(event)
    try:
        yield
    finally:
        _cancel.reset(token)


def wait_until(
    condition: Callable[[], T | None],
    *,
    within_s: float,
    because: str,
    poll_s: float = POLL_S,
    advance: Callable[[], object] = lambda: None,
) -> T:
    """Call ``condition`` until it returns something true, and return that. ``because`` names what
    is waited for. ``poll_s``: how long (seconds) to sleep between two calls; more when the wait
    becomes long, and 0 where the condition itself waits.

    The time limit begins anew whenever the value of ``advance`` changes. The caller sees to it that
    it changes only so often. ``condition`` is asked once more behind the time limit.

    Raises:
        WaitTimeoutError: ``condition`` did not return something true within ``within_s`` seconds.
        WaitCancelledError: another thread cancelled the wait.
    """
    last = advance()
    began = time.monotonic()
    deadline = began + within_s
    cancel = _cancel.get()
    while True:
        if cancel is not None and cancel.is_set():
            raise WaitCancelledError(because)
        over = time.monotonic() >= deadline  # before anything is asked, which may take long itself
        if (now := advance()) != last:
            deadline, last, over = time.monotonic() + within_s, now, False
        value = condition()
        if value:
            return value
        if over:
            raise WaitTimeoutError(because, within_s)
        time.sleep(poll_s and max(poll_s, min(LATE * (time.monotonic() - began), LATE_S)))
