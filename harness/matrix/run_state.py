"""What the threads of one run share: its results, its first failure, and whether it ends."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, TypeVar

from harness.matrix.listener import OneAtATime
from harness.matrix.room import behind, full_disk
from harness.model.failures import EnvironmentFailure
from harness.model.history import HistoryError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.matrix.listener import Progress
    from harness.saved import CellResult

T = TypeVar("T")


class RunState:
    """The state of a run in a directory. Safe to use from several threads."""

    def __init__(self, directory: Path, progress: Progress, enough: Callable[[], bool]) -> None:
        """``enough``: true ends the run before its next cell."""
        self.directory = directory
        self.progress = OneAtATime(progress)
        self.stop = threading.Event()
        """Set: no further cell begins, and those under way end."""
        self.failure: BaseException | None = None
        """What has ended the run, if anything."""
        self.results: dict[str, CellResult] = {}
        """The judged cells, by id."""
        self.phases: dict[str, float] = {}
        """How many seconds each set-up and deployment took, by name."""
        self._enough = enough

    @property
    def is_over(self) -> bool:
        """Whether no further cell may begin."""
        return self.stop.is_set() or self._enough()

    def fail(self, error: BaseException) -> None:
        """End the run. The first reason counts; a full disk comes before it in the message."""
        full = full_disk(self.directory)
        if full and isinstance(error, EnvironmentFailure | HistoryError):
            told = EnvironmentFailure(behind(full, str(error)))
            told.__cause__ = error
            error = told
        self.failure = self.failure or error
        self.stop.set()

    def timed(self, name: str, act: Callable[[], T]) -> T:
        """Do something, and note how long it took."""
        since = time.monotonic()
        try:
            return act()
        finally:
            self.phases[name] = round(time.monotonic() - since, 3)
