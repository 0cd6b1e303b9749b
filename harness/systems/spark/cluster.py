"""A standalone cluster for one cell: a master, a worker, and the executor that the worker starts and starts again."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psutil

from harness.core import events as kinds
from harness.core.scenario import Role
from harness.core.waiting import wait_until
from harness.runtimes.interface import NodeSpec
from harness.runtimes.ports import PortLease

if TYPE_CHECKING:
    from pathlib import Path

    from harness.core.history import HistoryWriter
    from harness.runtimes.interface import Node, Runtime
    from harness.setup.spark import SparkInstall

UP_S = 60.0
GONE_S = 20.0
SIGKILLED = 128 + 9
"""How the worker, its parent, reports an executor that died by SIGKILL."""
MEMORY = "512m"
_BACKEND = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_REGISTERED = "Successfully registered with master"


@dataclass
class Cluster:
    """Master and worker, with one executor at a time. The executor implements :class:`harness.bench.Target`."""

    runtime: Runtime
    install: SparkInstall
    history: HistoryWriter
    directory: Path
    key: str
    logs: Path
    name: str = "executor"
    role: Role = Role.EXECUTOR
    _lease: PortLease = field(default_factory=lambda: PortLease(3))
    _nodes: list[Node] = field(default_factory=list)
    _incarnation: int = 0
    _pid: int = 0

    @property
    def conf(self) -> dict[str, str]:
        """What a driver is told, to run its tasks here."""
        return {
            "spark.master": f"spark://127.0.0.1:{self._lease.port}",
            "spark.cores.max": "2",
            "spark.executor.cores": "2",
            "spark.executor.memory": MEMORY,
            "spark.executor.extraClassPath": ":".join(str(jar) for jar in self.install.connector),
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }

    def start(self) -> None:
        """Start master and worker; the executor comes with the first driver."""
        port, page, other_page = self._lease.ports
        self._start("master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port),
                    "--webui-port", str(page))  # fmt: skip
        log = self._start("worker", "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "2",
                          "--memory", "1g", "--webui-port", str(other_page), f"spark://127.0.0.1:{port}")  # fmt: skip
        wait_until(lambda: _REGISTERED in _text(log), within_s=UP_S, because="Spark's worker to find its master", poll_s=0.05)

    def await_executor(self) -> None:
        """Wait until an executor is up that has not been seen before, and write that down."""
        backend = wait_until(lambda: self._backend(not_pid=self._pid), within_s=UP_S, because="an executor", poll_s=0.05)
        self._pid = backend.pid
        self._incarnation += 1
        self._say("started")

    def kill(self) -> None:
        """SIGKILL the executor; gone is what its parent, the worker, says about its end."""
        ends = _ends(self.logs / "worker.log")
        psutil.Process(self._pid).kill()
        seen = wait_until(lambda: _ends(self.logs / "worker.log")[len(ends) :], within_s=GONE_S, poll_s=0.02,
                          because="the worker to report the end of its executor")  # fmt: skip
        status = seen[0]
        self._say("exited", status=None if status == SIGKILLED else status, signal=9 if status == SIGKILLED else None)

    def pause(self) -> None:
        """Stop it."""
        psutil.Process(self._pid).suspend()
        self._say("paused")

    def resume(self) -> None:
        """Let it go on."""
        psutil.Process(self._pid).resume()
        self._say("resumed")

    def restart(self) -> None:
        """Wait for the next one: the master has one started for as long as the driver wants it."""
        self.await_executor()

    def close(self) -> None:
        """End worker and master; the executor is of the worker's group."""
        while self._nodes:
            self._nodes.pop().kill()
        self._lease.close()

    def _start(self, role: str, main: str, *words: str) -> Path:
        log = self.logs / f"{role}.log"
        argv = (str(self.install.java), "-Xmx256m", "-XX:+UseSerialGC", *self.install.jvm_flags, "-cp", self.install.classpath,
                main, *words)  # fmt: skip
        env = {**self.install.env, "SPARK_WORKER_DIR": str(self.directory / "work")}
        self._nodes.append(self.runtime.start(NodeSpec(f"{self.key}-{role}", role, argv, env, log=log)))
        return log

    def _backend(self, not_pid: int) -> psutil.Process | None:
        for child in psutil.Process(self._nodes[-1].pid).children(recursive=True):
            try:
                if child.pid != not_pid and _BACKEND in child.cmdline():
                    return child
            except psutil.Error:  # it has just ended
                continue
        return None

    def _say(self, phase: str, **fields: Any) -> None:
        self.history.write(kinds.NODE, node=self.name, role=self.role, incarnation=self._incarnation, phase=phase,
                           pid=self._pid, **fields)  # fmt: skip


def _text(log: Path) -> str:
    return log.read_text(errors="replace") if log.exists() else ""


def _ends(log: Path) -> list[int]:
    """The exit statuses of executors that the worker has reported so far."""
    return [int(status) for status in re.findall(r"Executor \S+ finished with state \w+ .*?exitStatus (\d+)", _text(log))]
