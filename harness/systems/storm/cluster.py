"""A Storm beside a broker: ZooKeeper with a desk for submissions, Nimbus, and one supervisor, whose workers cells have."""

from __future__ import annotations

import json
import os
import re
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from harness.model.failures import EnvironmentFailure
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.runtimes.interface import NodeSpec
from harness.runtimes.ports import PortLease
from harness.systems.storm.desk import DeskError, ask
from harness.systems.storm.install import DESK

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from harness.runtimes.interface import Exit, Node, Runtime
    from harness.systems.storm.install import StormInstall

UP_S: Final = 90.0
EXITED_S: Final = 20.0
SLOTS: Final = 8
"""How many workers there may be at a time, those among them that are about to end."""
JVM: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
NIMBUS: Final = "org.apache.storm.daemon.nimbus.Nimbus"
SUPERVISOR: Final = "org.apache.storm.daemon.supervisor.Supervisor"
EXITED: Final = re.compile(r"Worker Process (?P<worker>\S+) exited with code: (?P<code>\d+)")
"""What a supervisor's log says of a worker's end: the word of its parent."""
LOGGING: Final = """<?xml version="1.0" encoding="UTF-8"?>
<configuration shutdownHook="disable">
  <appenders><Console name="out"><PatternLayout pattern="%d{{HH:mm:ss,SSS}} %-5p %c{{1}} %t - %m%n"/></Console>
  <File name="file" fileName="{file}"><PatternLayout pattern="%d{{HH:mm:ss,SSS}} %-5p %c{{1}} %t - %m%n"/></File></appenders>
  <loggers><root level="info"><appender-ref ref="{to}"/></root></loggers>
</configuration>
"""
WORKER_LOG: Final = "${sys:workers.artifacts}/${sys:storm.id}/${sys:worker.port}/worker.log"


@dataclass
class Cluster:
    """One of each. Safe to use from several threads, one per cell."""

    runtime: Runtime
    install: StormInstall
    directory: Path
    """For its settings, logs and what it keeps."""
    _lease: PortLease = field(default_factory=lambda: PortLease(4 + SLOTS))
    _nodes: dict[str, Node] = field(default_factory=dict)
    _ours: set[str] = field(default_factory=set)
    """Whose end is a fault's."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """Start all of it; does not wait for it."""
        here = self.directory.absolute()
        for folder in ("conf", "log4j2", "tmp", "lib", "lib-worker", "zookeeper", "local", "logs"):
            (here / folder).mkdir(parents=True, exist_ok=True)
        for jar in self.install.jars:
            (here / "lib-worker" / jar.name).symlink_to(jar)
        (here / "conf" / "storm.yaml").write_text("".join(f"{n}: {json.dumps(v)}\n" for n, v in self._conf().items()))
        (here / "log4j2" / "worker.xml").write_text(LOGGING.format(file=WORKER_LOG, to="file"))
        (here / "log4j2" / "cluster.xml").write_text(LOGGING.format(file=here / "logs" / "unused.log", to="out"))
        (here / "zoo.cfg").write_text(
            f"clientPort={self._keeper}\nclientPortAddress={self.runtime.bind}\ndataDir={here / 'zookeeper'}\ntickTime=500\n"
            "maxClientCnxns=0\nadmin.enableServer=false\n"
        )
        self._start("zookeeper", DESK, str(self._desk), str(here / "zoo.cfg"),
                    flags=("-Dzookeeper.forceSync=no", f"-Dstorm.jar={self.install.topology}"))  # fmt: skip
        self._start("nimbus", NIMBUS)
        self._start("supervisor", SUPERVISOR)

    def await_up(self) -> None:
        """Wait until Nimbus knows of a supervisor. Raises EnvironmentFailure where one of them ends."""

        def up() -> bool:
            self.check()
            try:
                return any("supervisor" in line for line in ask(self._desk, "list"))
            except DeskError:
                return False

        try:
            wait_until(up, within_s=UP_S, because="Nimbus to know of a supervisor", poll_s=0.1)
        except WaitTimeoutError as error:
            raise EnvironmentFailure(f"{error}; its logs: {self.directory}") from error

    def submit(self, name: str, words: Sequence[str]) -> None:
        """Submit our topology. Raises :class:`DeskError` where it is refused."""
        with self._lock:  # one jar is handed over at a time
            ask(self._desk, "submit", name, *words)

    def end(self, name: str) -> None:
        """Tell Nimbus that a topology is to end, now; its worker ends soon after."""
        ask(self._desk, "kill", name)

    def ended_with(self, worker: str) -> int | None:
        """Return what the supervisor's log says that a worker has ended with, as a shell does: 137 is SIGKILL."""
        log = self._nodes["supervisor"].log_path.read_text(errors="replace")
        return next((int(found["code"]) for found in EXITED.finditer(log) if found["worker"] == worker), None)

    def await_end(self, worker: str) -> int:
        """Wait for that."""
        wait_until(lambda: self.ended_with(worker) is not None, within_s=EXITED_S, because=f"the supervisor to miss {worker}")
        return self.ended_with(worker) or 0

    def process(self, name: str) -> Node:
        """Return a process of its own: ``zookeeper``, ``nimbus`` or ``supervisor``."""
        return self._nodes[name]

    def kill_nimbus(self) -> Exit:
        """SIGKILL it."""
        self._ours.add("nimbus")
        return self._nodes["nimbus"].kill()

    def restart_nimbus(self) -> None:
        """Start it again, and wait until it knows of its supervisor."""
        self._start("nimbus", NIMBUS)
        self._ours.discard("nimbus")
        self.await_up()

    def check(self) -> None:
        """Raise EnvironmentFailure where one of them has died by itself."""
        for name, node in self._nodes.items():
            if (end := node.exit) is not None and name not in self._ours:
                raise EnvironmentFailure(f"Storm's {name} ended ({end}): {node.log_tail(3)}")

    def close(self) -> None:
        """End all of it, workers and their writers of logs among it. Safe to call twice."""
        for name in ("supervisor", "nimbus", "zookeeper"):
            if (node := self._nodes.get(name)) is not None:
                self._ours.add(name)
                node.kill()
        self._lease.close()

    @property
    def _keeper(self) -> int:
        return self._lease.ports[0]

    @property
    def _desk(self) -> int:
        return self._lease.ports[3]

    def _start(self, name: str, main: str, *words: str, flags: Sequence[str] = ()) -> None:
        here = self.directory.absolute()
        class_path = os.pathsep.join(map(str, (here / "conf", self.install.topology, *self.install.jars)))
        argv = (
            str(self.install.java), "-Xmx192m", *JVM, *flags, f"-Dstorm.home={here}", f"-Dstorm.log.dir={here / 'logs'}",
            f"-Djava.io.tmpdir={here / 'tmp'}", f"-Dlog4j.configurationFile={here / 'log4j2' / 'cluster.xml'}",
            "-Djava.net.preferIPv4Stack=true", "-cp", class_path, main, *words,
        )  # fmt: skip
        env = {"JAVA_HOME": str(self.install.java.resolve().parent.parent), "STORM_CONF_DIR": str(here / "conf")}
        self._nodes[name] = self.runtime.start(
            NodeSpec(f"storm-{name}", name, argv, env, cwd=here, log=self.directory / f"{name}.log")
        )

    def _conf(self) -> dict[str, Any]:
        keeper, nimbus, supervisor, _, *slots = self._lease.ports
        here, host = self.directory.absolute(), self.runtime.bind
        jvm = " ".join((*JVM, "-Djava.net.preferIPv4Stack=true", f"-Djava.io.tmpdir={here / 'tmp'}"))
        return {
            "storm.zookeeper.servers": [host], "storm.zookeeper.port": keeper,
            "storm.zookeeper.session.timeout": 10000, "storm.zookeeper.connection.timeout": 5000,
            "storm.local.hostname": host, "storm.local.dir": str(here / "local"),
            "storm.log4j2.conf.dir": str(here / "log4j2"), "storm.workers.artifacts.dir": str(here / "workers"),
            "nimbus.seeds": [host], "nimbus.thrift.port": nimbus, "nimbus.thrift.threads": 8, "nimbus.monitor.freq.secs": 1,
            "storm.nimbus.retry.times": 1, "storm.nimbus.retry.interval.millis": 200,
            "storm.nimbus.retry.intervalceiling.millis": 1000,
            "nimbus.task.launch.secs": 60, "nimbus.topology.blobstore.deletion.delay.ms": 600000,
            "supervisor.thrift.port": supervisor, "supervisor.slots.ports": slots, "supervisor.monitor.frequency.secs": 1,
            "supervisor.heartbeat.frequency.secs": 1, "supervisor.worker.shutdown.sleep.secs": 1,
            "supervisor.memory.capacity.mb": 16384.0, "supervisor.cpu.capacity": 1600.0,
            "worker.childopts": f"-Xmx128m {jvm}", "topology.worker.logwriter.childopts": f"-Xmx32m {jvm}",
            "task.heartbeat.frequency.secs": 1, "task.refresh.poll.secs": 1,
            "storm.metricstore.class": "none", "storm.daemon.metrics.reporter.plugins": [],
            "topology.min.replication.count": 1, "topology.max.replication.wait.time.sec": 0,
        }  # fmt: skip
