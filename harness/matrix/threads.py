"""Starts threads, and waits for their ends also when Ctrl-C comes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

WATCH_S: Final = 0.2
"""How often (seconds) a wait looks up: a deployment is checked then."""


class Thread(threading.Thread):
    """A thread with an event that says when it has ended.

    ``Thread.join`` is not reliable: after Ctrl-C during the wait, Python 3.11 takes a running
    thread for dead.
    """

    over: threading.Event

    def start(self) -> None:
        """Start the thread as a daemon."""
        self.over = threading.Event()
        self.daemon = True  # after a second Ctrl-C the interpreter waits for nobody either
        super().start()

    def run(self) -> None:
        """Do the work, then set the event."""
        try:
            super().run()
        finally:
            self.over.set()


def join(threads: Sequence[Thread]) -> None:
    """Wait for threads, such that Ctrl-C interrupts the wait."""
    for thread in threads:
        while not thread.over.wait(WATCH_S):
            continue
