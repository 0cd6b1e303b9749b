"""One driver for the queries of all cells in which no driver is killed or paused: a session that they share."""

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
"""How long a query may take to stop in order; a session in which one takes longer is of no further use."""


@dataclass
class SharedSession:
    """A driver that is started with the first query, and again after its end. Used by several cells at once."""

    runtime: Runtime
    ground: SparkGround
    conf: Mapping[str, str]
    directory: Path
    _lives: int = 0
    _now: Launched | None = None
    _of: dict[str, Launched] = field(default_factory=dict)
    """Stages whose queries run, by the names that the wire knows them by."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, stage: Stage) -> Launched:
        """Hand a stage over to the session; return what runs it. Its ledger says when it is ready."""
        with self._lock:
            now = self._alive()
            self._of[stage.client_id] = now
            _tell(now, {"start": stage.environment()[VARIABLE]})
        return now

    def stand_by(self) -> None:
        """Start the driver, where there is none, before anybody needs it."""
        with self._lock:
            self._alive()

    def end(self, stage: Stage, over: Callable[[], bool]) -> None:
        """Stop a query in order. Where that cannot be done the session ends, and all that it runs."""
        with self._lock:
            launched = self._of.pop(stage.client_id, None)
        if launched is None:
            return
        with contextlib.suppress(NodeStateError, WaitTimeoutError, HistoryChangedError):
            if not over():
                _tell(launched, {"stop": stage.client_id})
            wait_until(lambda: over() or not launched.node.alive, within_s=END_S, because="a query to stop")
            return
        self._kill(launched)

    def close(self) -> None:
        """End the driver."""
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
        name = NAME if self._lives == 1 else f"{NAME}-{self._lives}"
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
