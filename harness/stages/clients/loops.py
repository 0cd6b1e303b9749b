"""Run what a library of coroutines does, for a program that has no event loop: the loop has a
thread of its own here.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


class Loop:
    """An event loop in a thread. What runs in it ends with the connection that it is for."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self.over: asyncio.Event | None = None
        """Set when the present connection has ended; ``None``: there is none yet."""

    def run(self, does: Coroutine[object, object, T], *, within_s: float | None = None) -> T:
        """Return what a coroutine returns.

        Raises:
            OSError: the connection has ended meanwhile.
            TimeoutError: it takes longer.
        """
        return asyncio.run_coroutine_threadsafe(self._either(does), self._loop).result(within_s)

    async def _either(self, does: Coroutine[object, object, T]) -> T:
        """Wait for the outcome, or for the end of the connection."""
        task = asyncio.ensure_future(does)
        if self.over is None:
            return await task
        over = asyncio.ensure_future(self.over.wait())
        await asyncio.wait({task, over}, return_when=asyncio.FIRST_COMPLETED)
        over.cancel()
        if task.done():
            return task.result()
        task.cancel()
        raise OSError("the connection is lost")
