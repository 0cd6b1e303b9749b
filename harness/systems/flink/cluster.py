"""A Flink cluster beside a broker: one JobManager, and as many TaskManagers, with one slot each, as
cells need now.
"""

from __future__ import annotations

import os
import shutil
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from harness.model.failures import EnvironmentFailure
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.runtimes.interface import JAVA_IMAGE, ContainerSpec, NodeSpec
from harness.runtimes.ports import PortLease
from harness.systems.flink.install import MAIN, OPENS, SERVICES
from harness.systems.flink.rest import JobManagerApi, RestError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from harness.runtimes.interface import Exit, Node, Runtime
    from harness.systems.flink.install import FlinkInstall

UP_S: Final = 90.0
FAILPOINTS: Final = "failpoints"
"""The folder, in the cluster's, for failpoints of the JobManager."""
JVM: Final = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    # Flink loads Pekko with a class loader that no archive covers: verifying those classes took
    # half of a start
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)
MASTER: Final = "job-manager"
"""The node name of the JobManager."""
JOB_MANAGER: Final = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
TASK_MANAGER: Final = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
LOGGING: Final = """rootLogger.level=INFO
rootLogger.appenderRef.out.ref=out
appender.out.name=out
appender.out.type=CONSOLE
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d{HH:mm:ss,SSS} %-5p %c{1} %x - %m%n
"""
# a distribution's scripts compute a TaskManager's memory; without them each part must be set
MEMORY: Final = {
    "taskmanager.cpu.cores": "1.0",
    "taskmanager.memory.framework.heap.size": "64m",
    "taskmanager.memory.framework.off-heap.size": "32m",
    "taskmanager.memory.task.heap.size": "96m",
    "taskmanager.memory.task.off-heap.size": "16m",
    "taskmanager.memory.managed.size": "4m",
    "taskmanager.memory.network.min": "8m",
    "taskmanager.memory.network.max": "8m",
    "taskmanager.memory.jvm-metaspace.size": "96m",
    "taskmanager.memory.jvm-overhead.min": "32m",
    "taskmanager.memory.jvm-overhead.max": "32m",
}


@dataclass
class Cluster:
    """One JobManager and its TaskManagers. Safe to use from several threads, one per cell."""

    runtime: Runtime
    install: FlinkInstall
    directory: Path
    """The folder for its settings, logs and temporary files."""
    run: Path
    """The folder of the run, in which cells keep their files."""
    key: str = ""
    """The prefix of its nodes' names, if there are several clusters."""
    at_first: int = 1
    """How many TaskManagers are started before a cell asks for one."""
    _lease: PortLease = field(default_factory=lambda: PortLease(3))
    _job_manager: Node | None = None
    _task_managers: dict[str, Node] = field(default_factory=dict)
    _numbers: int = 0
    _wanted: int = 0
    _jar: str = ""
    _ours: bool = False
    """Whether a fault killed the JobManager."""
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def rest(self) -> JobManagerApi:
        """The REST client of its JobManager."""
        return JobManagerApi(self._lease.ports[0])

    @property
    def failpoints(self) -> Path:
        """The folder in which failpoints of its JobManager are armed."""
        return self.directory.absolute() / FAILPOINTS

    def start(self) -> None:
        """Start the JobManager and the first TaskManagers, without waiting."""
        for folder in ("conf", "plugins", "tmp", FAILPOINTS):
            (self.directory / folder).mkdir(parents=True, exist_ok=True)
        (self.directory / "conf" / "config.yaml").write_text(
            "".join(f"{name}: '{told}'\n" for name, told in self._conf().items())
        )
        (self.directory / "conf" / "log4j.properties").write_text(LOGGING)
        self.start_job_manager()
        self.want(self.at_first)
        self.unwant(self.at_first)

    # --- the JobManager ---------------------------------------------------------------------------

    @property
    def job_manager(self) -> Node:
        """The JobManager's process.

        Raises:
            RuntimeError: the JobManager was never started.
        """
        if self._job_manager is None:
            raise RuntimeError("the JobManager was never started")
        return self._job_manager

    def start_job_manager(self) -> None:
        """Start a JobManager, which knows nothing of earlier jobs."""
        self._jar = ""
        words = ("-D", f"high-availability.type={SERVICES}") if self.install.services else ()
        self._job_manager = self.runtime.start(
            self._spec(
                MASTER,
                self.install.job_manager,
                JOB_MANAGER,
                "256m",
                *words,
                jar=self.install.services,
            )
        )
        self._ours = False  # only now: a check before would report the end of the old one

    def kill_job_manager(self) -> Exit:
        """Kill the JobManager with SIGKILL. Its TaskManagers live on, and look for the next one."""
        self._ours = True
        return self.job_manager.kill()

    def submit(self, words: Sequence[str], restored_from: str | None = None) -> str:
        """Submit lostack's job with these arguments; return its id.

        Raises:
            RestError: the JobManager refuses the job.
        """
        with self._lock:
            self.await_up()
            if not self._jar:
                self._jar = self.rest.upload(self.install.job)
            jar = self._jar
        return self.rest.run(jar, MAIN, words, restored_from)

    def await_up(self) -> None:
        """Wait until the JobManager answers.

        Raises:
            EnvironmentFailure: the JobManager ended, or does not answer in time.
        """

        def up() -> bool:
            if (end := self.job_manager.exit) is not None:
                raise EnvironmentFailure(
                    f"the JobManager ended ({end}): {self.job_manager.log_tail(3)}"
                )
            try:
                return "taskmanagers" in self.rest.overview()
            except RestError:
                return False

        try:
            wait_until(up, within_s=UP_S, because="the JobManager to answer", poll_s=0.05)
        except WaitTimeoutError as error:
            raise EnvironmentFailure(f"{error}; its log: {self.job_manager.log_path}") from error

    # --- the TaskManagers -------------------------------------------------------------------------

    def want(self, slots: int) -> None:
        """Raise the number of needed TaskManagers, and start what is missing, without waiting."""
        with self._lock:
            self._wanted += slots
            self._fill()

    def unwant(self, slots: int) -> None:
        """Lower the number of needed TaskManagers. The running ones stay, for other cells."""
        with self._lock:
            self._wanted -= slots

    def task_manager(self, name: str) -> Node:
        """Return the process of a TaskManager, dead or alive, by its name."""
        with self._lock:
            return self._task_managers[name]

    def kill(self, name: str) -> Exit:
        """Kill a TaskManager with SIGKILL. :meth:`refill` starts another in its place."""
        return self.task_manager(name).kill()

    def refill(self) -> None:
        """Start the TaskManagers that are needed and missing."""
        with self._lock:
            self._fill()

    def all_registered(self) -> bool:
        """Say whether the JobManager knows as many TaskManagers as there are.

        Raises:
            RestError: the JobManager does not answer.
        """
        with self._lock:
            alive = sum(node.alive for node in self._task_managers.values())
        return int(self.rest.overview()["taskmanagers"]) >= alive

    # --- all of it --------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise EnvironmentFailure if the JobManager died by itself."""
        if (
            self._job_manager is not None
            and (end := self._job_manager.exit) is not None
            and not self._ours
        ):
            raise EnvironmentFailure(
                f"the JobManager ended ({end}): {self._job_manager.log_tail(3)}"
            )

    def close(self) -> None:
        """Stop all nodes. Safe to call twice."""
        with self._lock:
            for node in (*self._task_managers.values(), self._job_manager):
                if node is not None and node.alive:
                    node.kill()
        shutil.rmtree(self.directory / "tmp", ignore_errors=True)
        self._lease.close()

    def _fill(self) -> None:
        while sum(node.alive for node in self._task_managers.values()) < self._wanted:
            self._numbers += 1
            name = f"task-manager-{self._numbers}"
            host = self.runtime.address(self.key + name)
            words = ("-D", f"taskmanager.resource-id={name}", "-D", f"taskmanager.host={host}")
            self._task_managers[name] = self.runtime.start(
                self._spec(name, self.install.task_manager, TASK_MANAGER, "192m", *words)
            )

    def _spec(
        self,
        name: str,
        flags: Sequence[str],
        main: str,
        heap: str,
        *words: str,
        jar: Path | None = None,
    ) -> NodeSpec:
        conf = self.directory.absolute() / "conf"
        scratch = self.directory.absolute() / "tmp"
        classpath = os.pathsep.join(filter(None, (self.install.classpath, str(jar or ""))))
        argv = (
            str(self.install.java),
            f"-Xmx{heap}",
            *JVM,
            *flags,
            *OPENS,
            f"-Djava.io.tmpdir={scratch}",
            f"-Dlostack.failpoints={self.failpoints}",
            f"-Dlog4j.configurationFile={conf / 'log4j.properties'}",
            "-cp",
            classpath,
            main,
            "--configDir",
            str(conf),
            *words,
        )
        env = {
            "FLINK_CONF_DIR": str(conf),
            "FLINK_PLUGINS_DIR": str(self.directory.absolute() / "plugins"),
        }
        container = ContainerSpec(
            JAVA_IMAGE,
            ports=self._lease.ports[:1] if name == MASTER else (),
            folders=(self.run, *self.install.folders),
            host_pids=False,
        )
        return NodeSpec(
            self.key + name,
            name.rstrip("-0123456789"),
            argv,
            env,
            log=self.directory / f"{name}.log",
            container=container,
        )

    def _conf(self) -> dict[str, str]:
        rest, rpc, blob = self._lease.ports
        bind = self.runtime.bind
        scratch = self.directory.absolute() / "tmp"
        at = self.runtime.address(self.key + MASTER)
        return {
            "jobmanager.rpc.address": at,
            "jobmanager.rpc.port": str(rpc),
            "jobmanager.bind-host": bind,
            "rest.address": at,
            "rest.bind-address": bind,
            "rest.port": str(rest),
            "rest.bind-port": str(rest),
            "blob.server.port": str(blob),
            "web.upload.dir": str(scratch),
            "io.tmp.dirs": str(scratch),
            "taskmanager.bind-host": bind,
            "taskmanager.numberOfTaskSlots": "1",
            # a TaskManager counts as dead after one failed heartbeat
            "heartbeat.interval": "500",
            "heartbeat.timeout": "6000",
            "heartbeat.rpc-failure-threshold": "1",
            # after this start-up time a JobManager fails a job at once if it has no slot: a job
            # that restarts then uses up attempts until there is a slot, and a job that does not
            # restart has failed
            "slot.request.timeout": "60000",
            "resourcemanager.standalone.start-up-time": "86400000",
            "cluster.registration.error-delay": "200",
            "cluster.registration.refused-registration-delay": "200",
            "cluster.registration.initial-timeout": "100",
            "cluster.registration.max-timeout": "500",
            "execution.checkpointing.num-retained": "10",  # Flink ignores this setting in a job
            # REST answers must be current
            "web.refresh-interval": "20",
            "rest.cache.checkpoint-statistics.timeout": "10 ms",
            **MEMORY,
        }
