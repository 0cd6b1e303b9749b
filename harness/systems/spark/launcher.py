"""What a Spark stands on: processes of this machine, or containers. Here, and nowhere else, the two differ."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

import psutil

from harness.model.failures import EnvironmentFailure
from harness.provision.gateway import LOOPBACK, start_gateway
from harness.runtimes.interface import ContainerSpec, NodeSpec
from harness.runtimes.ports import PortLease
from harness.stages.clients import PRELOADS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.provision.spark_install import SparkInstall
    from harness.runtimes.interface import Exit, Node, Runtime

MEMORY_MB = 512
FLAGS = ("-XX:TieredStopAtLevel=1",)
"""A driver of a cell lives for seconds: the second compiler would only cost."""
HEAP = ("-Xms128m", "-Xmn48m")
"""Room for what is new from the beginning: growing the heap step by step cost a tenth of a driver's CPU."""
DAEMON = ("-Xmx256m", "-XX:+UseSerialGC")
STREAMING = "harness.stages.streaming"
CORES = "2"
MASTER, WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
SIGKILL, SIGKILLED = 9, 128 + 9
"""How the worker, its parent, reports an executor that died by SIGKILL."""
SCRATCH = "scratch"
"""Where Spark puts what it needs for a while: a folder of the cell's, removed when that is over."""
HOME = "/opt/spark"
OURS = "/opt/lostack"
"""Where the driver's image has what is ours: the programs, and ``jars``."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a driver is to run: a module, Spark's settings, the environment of the program."""

    key: str
    name: str
    module: str
    conf: Mapping[str, str]
    env: Mapping[str, str]
    folder: Path
    """The cell's."""
    logs: Path
    told: bool = False
    """The program is told what to do on its standard input."""


@dataclass(frozen=True, slots=True)
class Launched:
    """A driver on its way: what dies, and the program in front of it where that is a node of its own."""

    node: Node
    front: Node | None


@dataclass
class Servers:
    """Where master and worker are, and how they are started."""

    master: NodeSpec
    worker: NodeSpec
    url: str
    conf: Mapping[str, str]
    """What a driver is told beyond the URL."""
    lease: PortLease | None = field(default=None)

    def close(self) -> None:
        """Give the ports back."""
        if self.lease is not None:
            self.lease.close()


class SparkGround(Protocol):
    """Where drivers, masters and workers live, and how they are started there."""

    @property
    def spark(self) -> str:
        """The release."""

    @property
    def preload(self) -> tuple[str, ...]:
        """What the programs of a cell import, and may be forked with."""

    @property
    def killed_alone(self) -> bool:
        """Whether an executor dies alone, its worker reporting how; else the engine says how it died, its worker with it."""

    @property
    def at_hand(self) -> bool:
        """Whether a driver can be told what to do: one may run the queries of many cells, and another stand by."""

    def launch(self, runtime: Runtime, job: Job) -> Launched:
        """Start a driver with its program."""

    def program(self, launched: Launched) -> int | None:
        """Return the process id of the program; ``None`` where it is not there (yet, or any more)."""

    def servers(self, key: str, folder: Path, logs: Path) -> Servers:
        """Return a cluster of one worker, for one cell."""

    def versions(self) -> dict[str, str]:
        """Return what takes part beyond Kafka's, for the report."""


@dataclass(frozen=True)
class ProcessSparkGround:
    """Java on this machine: the JVM is a node, and the program in front of it another one."""

    install: SparkInstall
    failpoint_jar: Path
    killed_alone: ClassVar[bool] = True
    at_hand: ClassVar[bool] = True

    @property
    def spark(self) -> str:
        """The release of the jars."""
        return self.install.version

    @property
    def preload(self) -> tuple[str, ...]:
        """The front's program, which is forked; another release brings a PySpark of its own, and is started afresh."""
        return (STREAMING, *PRELOADS["kafka-python"]) if self.install.site is None else ()

    def launch(self, runtime: Runtime, job: Job) -> Launched:
        """Start the JVM, then its front."""
        name = f"{job.key}-{job.name}"
        work = job.folder / SCRATCH / job.name
        gateway = start_gateway(
            runtime, self.install, work=work, name=name, conf=job.conf, memory_mb=MEMORY_MB, flags=(*FLAGS, *HEAP),
            jars=(self.failpoint_jar,), log=job.logs / f"{job.name}.log",
        )  # fmt: skip
        front = runtime.start(NodeSpec(
            name=f"{name}-front", role="front", argv=(sys.executable, "-m", job.module),
            log=job.logs / f"{job.name}-front.log", env={**self.install.env, **gateway.env, **job.env}, cwd=Path.cwd(),
            preload=(job.module,) if job.module in self.preload else (), stdin_pipe=job.told,
        ))  # fmt: skip
        return Launched(gateway.node, front)

    def program(self, launched: Launched) -> int | None:
        """Return the process that counts: the front."""
        return launched.front.pid if launched.front is not None else None

    def servers(self, key: str, folder: Path, logs: Path) -> Servers:
        """Two JVMs on loopback; the executor is a third, of the worker's group."""
        lease = PortLease(3)
        port, page, other_page = lease.ports
        url = f"spark://127.0.0.1:{port}"
        scratch = folder.absolute() / SCRATCH
        scratch.mkdir(parents=True, exist_ok=True)
        conf = {
            "spark.executor.extraClassPath": ":".join(str(jar) for jar in self.install.connector),
            "spark.executor.defaultJavaOptions": f"-Djava.io.tmpdir={scratch}",
        }

        def spec(role: str, main: str, *words: str) -> NodeSpec:
            flags = (*DAEMON, *self.install.jvm_flags, f"-Djava.io.tmpdir={scratch}")
            argv = (str(self.install.java), *flags, "-cp", self.install.classpath, main, *words)
            env = {**self.install.env, "SPARK_WORKER_DIR": str(folder.absolute() / "work"),
                   "SPARK_LOCAL_DIRS": str(scratch)}  # fmt: skip
            return NodeSpec(f"{key}-{role}", role, argv, env, log=logs / f"{role}.log")

        return Servers(
            spec("master", MASTER, "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page)),
            spec("worker", WORKER, "--host", "127.0.0.1", "--cores", CORES, "--memory", "1g", "--webui-port", str(other_page),
                 url), url, conf, lease,
        )  # fmt: skip

    def versions(self) -> dict[str, str]:
        """Spark."""
        return {"spark": self.spark}


@dataclass(frozen=True)
class DockerSparkGround:
    """Images in an engine: the program is handed to ``spark-submit``, as a user would; master and worker are Spark's own."""

    spark: str
    jars: tuple[str, ...]
    """Names of the connector's jars, and the failpoints'."""
    killed_alone: ClassVar[bool] = False
    at_hand: ClassVar[bool] = False
    preload: ClassVar[tuple[str, ...]] = ()

    def launch(self, runtime: Runtime, job: Job) -> Launched:
        """Submit the program in a container of its own: JVM and Python die with it."""
        name = f"{job.name}-{job.key}"  # a letter first: Spark takes no host name that begins with a digit
        local = job.conf["spark.master"].startswith("local")
        conf = {
            **LOOPBACK,
            **({} if local else {"spark.driver.host": runtime.address(name), "spark.driver.bindAddress": runtime.bind}),
            **job.conf,
        }
        options = [*FLAGS, "-XX:+UseSerialGC", f"-Dlog4j2.configurationFile={OURS}/harness/provision/spark-log4j2.properties"]
        argv = (
            f"{HOME}/bin/spark-submit", "--driver-memory", f"{MEMORY_MB}m", "--driver-java-options", " ".join(options),
            "--jars", ",".join(f"{OURS}/jars/{jar}" for jar in self.jars),
            *(word for key, value in conf.items() for word in ("--conf", f"{key}={value}")),
            f"{OURS}/{job.module.replace('.', '/')}.py",
        )  # fmt: skip
        spec = NodeSpec(name, "driver", argv, dict(job.env), log=job.logs / f"{job.name}.log",
                        container=ContainerSpec("driver", folders=(job.folder,)))  # fmt: skip
        return Launched(runtime.start(spec), None)

    def program(self, launched: Launched) -> int | None:
        """Return the process that counts: the process that the JVM has started for it."""
        try:
            below = psutil.Process(launched.node.pid).children()
            return next((each.pid for each in below if "python" in each.name()), None)
        except psutil.Error:  # it has just ended
            return None

    def servers(self, key: str, folder: Path, logs: Path) -> Servers:
        """Two containers; the executor is in the worker's, and dies with it."""
        url = f"spark://master-{key}:7077"

        def spec(role: str, main: str, *words: str) -> NodeSpec:
            env = {"SPARK_WORKER_DIR": str(folder / "work"), "SPARK_DAEMON_MEMORY": "256m", "SPARK_NO_DAEMONIZE": "1",
                   "SPARK_DAEMON_JAVA_OPTS": " ".join(DAEMON[1:])}  # fmt: skip
            inside = ContainerSpec("spark", folders=(folder,), host_pids=False, entrypoint=f"{HOME}/bin/spark-class")
            return NodeSpec(f"{role}-{key}", role, (main, *words), env, log=logs / f"{role}.log", container=inside)

        return Servers(
            spec("master", MASTER, "--host", f"master-{key}", "--port", "7077"),
            spec("worker", WORKER, "--host", f"worker-{key}", "--cores", CORES, "--memory", "1g", url), url, {},
        )  # fmt: skip

    def versions(self) -> dict[str, str]:
        """Spark; its images are among those of Kafka's ground."""
        return {"spark": self.spark}


def how(end: Exit) -> dict[str, int | None]:
    """Return status and signal of an end, as the history has them."""
    return {"status": end.status, "signal": end.signal}


def reported(status: int) -> dict[str, int | None]:
    """Return status and signal of what a worker says about its executor.

    >>> reported(137), reported(1)
    ({'status': None, 'signal': 9}, {'status': 1, 'signal': None})
    """
    return {"status": None if status == SIGKILLED else status, "signal": SIGKILL if status == SIGKILLED else None}


def refuse_release(other: str | None) -> None:
    """Raise EnvironmentFailure where another release is asked for than the one of the images."""
    if other is not None:
        raise EnvironmentFailure(f"LOSTACK_SPARK={other}: another release runs in runtime process only; unset it")
