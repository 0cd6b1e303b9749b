"""A shared session: one driver runs the queries of all cells whose driver no fault strikes."""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.model.tail import HistoryChangedError
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.runtimes.interface import NodeStateError
from harness.stages.stage import VARIABLE
from harness.systems.spark.launcher import SCRATCH, Job, Launched

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from harness.runtimes.interface import Runtime
    from harness.stages.stage import Stage
    from harness.systems.spark.launcher import SparkGround

MODULE = "harness.stages.session"
NAME = "session"
END_S = 20.0
"""How long (seconds) a query may take to stop. If it takes longer, the whole session is killed."""


@dataclass
class SharedSession:
    """A driver that runs the queries of several cells at once. It starts with the first query, and
    again if it has died.
    """

    runtime: Runtime
    ground: SparkGround
    conf: Mapping[str, str]
    directory: Path
    name: str = NAME
    """Its name among the sessions of a deployment, one for each client."""
    _lives: int = 0
    _now: Launched | None = None
    _of: dict[str, Launched] = field(default_factory=dict)
    """Client id of a stage → the driver that runs its query."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, stage: Stage) -> Launched:
        """Start a stage's query in the session; return the driver. The stage's history says when
        the query is ready.
        """
        with self._lock:
            now = self._alive()
            self._of[stage.client_id] = now
            _tell(now, {"start": stage.environment()[VARIABLE]})
        return now

    def stand_by(self) -> None:
        """Start the driver ahead, if it does not run."""
        with self._lock:
            self._alive()

    def end(self, stage: Stage, over: Callable[[], bool]) -> None:
        """Stop a stage's query; if it does not stop in time, kill the session with all
        its queries.
        """
        with self._lock:
            launched = self._of.pop(stage.client_id, None)
        if launched is None:
            return
        with contextlib.suppress(NodeStateError, WaitTimeoutError, HistoryChangedError):
            if not over():
                _tell(launched, {"stop": stage.client_id})
            wait_until(
                lambda: over() or not launched.node.alive, within_s=END_S, because="a query to stop"
            )
            return
        self._kill(launched)

    def close(self) -> None:
        """Stop the driver."""
        with self._lock:
            if self._now is not None:
                self._kill(self._now)
            self._now = None
        shutil.rmtree(self.directory / SCRATCH, ignore_errors=True)

    def _alive(self) -> Launched:
        now = self._now
        if now is None or not now.node.alive or now.front is None or not now.front.alive:
            now = self._now = self._launch()
        return now

    def _launch(self) -> Launched:
        self._lives += 1
        name = self.name if self._lives == 1 else f"{self.name}-{self._lives}"
        job = Job("shared", name, MODULE, self.conf, {}, self.directory, self.directory, told=True)
        return self.ground.launch(self.runtime, job)

    @staticmethod
    def _kill(launched: Launched) -> None:
        for node in (launched.node, launched.front):
            if node is not None and node.alive:
                node.kill()


def _tell(launched: Launched, order: Mapping[str, str]) -> None:
    if launched.front is not None:
        launched.front.write_stdin(f"{json.dumps(order)}\n".encode())
