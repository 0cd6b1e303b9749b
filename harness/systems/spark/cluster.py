"""A standalone Spark cluster for one cell: a master, a worker, and an executor that the worker
starts and restarts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psutil

from harness.model.events import NodePhase
from harness.model.scenario import Role
from harness.model.waiting import wait_until
from harness.run.nodes import say_of
from harness.systems.spark.launcher import CORES, how, reported

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Unpack

    from harness.model.events import NodeFields
    from harness.model.history import HistoryWriter
    from harness.runtimes.interface import Node, Runtime
    from harness.systems.spark.launcher import Servers, SparkGround

UP_S = 120.0
GONE_S = 20.0
MEMORY = "512m"
_BACKEND = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_REGISTERED = "Successfully registered with master"


@dataclass
class Cluster:
    """A master and a worker, with one executor at a time. The executor implements
    :class:`harness.controls.Target`.

    In a container the executor lives with its worker, and a fault kills, pauses and restarts the
    container of both.
    """

    runtime: Runtime
    ground: SparkGround
    history: HistoryWriter
    directory: Path
    key: str
    logs: Path
    name: str = "executor"
    role: Role = Role.EXECUTOR
    _servers: Servers = field(init=False)
    _master: Node | None = None
    _worker: Node | None = None
    _incarnation: int = 0
    _pid: int = 0

    def __post_init__(self) -> None:
        self._servers = self.ground.servers(self.key, self.directory, self.logs)

    @property
    def conf(self) -> dict[str, str]:
        """The Spark settings with which a driver runs its tasks on this cluster."""
        return {
            "spark.master": self._servers.url,
            "spark.cores.max": CORES,
            "spark.executor.cores": CORES,
            "spark.executor.memory": MEMORY,
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            **self._servers.conf,
        }

    def start(self) -> None:
        """Start the master and the worker. The executor starts with the first driver."""
        self._master = self.runtime.start(self._servers.master)
        self._start_worker()

    def await_executor(self) -> None:
        """Wait until a new executor is up, and write that down."""
        backend = wait_until(
            lambda: self._backend(not_pid=self._pid),
            within_s=UP_S,
            because="an executor",
            poll_s=0.05,
        )
        self._pid = backend.pid
        self._incarnation += 1
        self._say(NodePhase.STARTED)

    def kill(self) -> None:
        """Kill the executor with SIGKILL, and wait until its parent (the worker, or the container
        engine) reports its end.
        """
        if not self.ground.killed_alone:
            self._say(NodePhase.EXITED, **how(self._node().kill()))
            return
        ends = _ends(self.logs / "worker.log")
        psutil.Process(self._pid).kill()
        seen = wait_until(
            lambda: _ends(self.logs / "worker.log")[len(ends) :],
            within_s=GONE_S,
            poll_s=0.02,
            because="the worker to report the end of its executor",
        )
        self._say(NodePhase.EXITED, **reported(seen[0]))

    def pause(self) -> None:
        """Stop the executor (SIGSTOP), or the container."""
        if self.ground.killed_alone:
            psutil.Process(self._pid).suspend()
        else:
            self._node().pause()
        self._say(NodePhase.PAUSED)

    def resume(self) -> None:
        """Let the executor, or the container, go on."""
        if self.ground.killed_alone:
            psutil.Process(self._pid).resume()
        else:
            self._node().resume()
        self._say(NodePhase.RESUMED)

    def restart(self) -> None:
        """Wait for the next executor, which the master requests by itself; restart the worker first
        if it is dead.
        """
        if not self._node().alive:
            self._start_worker()
        self.await_executor()

    def close(self) -> None:
        """Stop the worker with its executor, and the master."""
        for node in (self._worker, self._master):
            if node is not None:
                node.kill()
        self._servers.close()

    def _start_worker(self) -> None:
        log = self._servers.worker.log
        before = _text(log).count(_REGISTERED)
        self._worker = self.runtime.start(self._servers.worker)
        wait_until(
            lambda: _text(log).count(_REGISTERED) > before,
            within_s=UP_S,
            because="Spark's worker to find its master",
            poll_s=0.05,
        )

    def _node(self) -> Node:
        if self._worker is None:
            raise RuntimeError("the worker was never started")
        return self._worker

    def _backend(self, not_pid: int) -> psutil.Process | None:
        try:
            below = psutil.Process(self._node().pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return None
        for child in below:
            try:
                if child.pid != not_pid and _BACKEND in child.cmdline():
                    return child
            except psutil.Error:  # it has just ended
                continue
        return None

    def _say(self, phase: NodePhase, **fields: Unpack[NodeFields]) -> None:
        say_of(self, self.history, phase, self._pid, self._incarnation, **fields)


def _text(log: Path | None) -> str:
    return log.read_text(errors="replace") if log is not None and log.exists() else ""


def _ends(log: Path) -> list[int]:
    """Return the exit statuses of executors that the worker's log reports."""
    return [
        int(status)
        for status in re.findall(
            r"Executor \S+ finished with state \w+ .*?exitStatus (\d+)", _text(log)
        )
    ]
