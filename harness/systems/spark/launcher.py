"""Start Spark as processes or as containers. This module holds all differences between the two
runtimes.
"""

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

    from harness.model.events import NodeFields
    from harness.provision.spark_install import SparkInstall
    from harness.runtimes.interface import Exit, Node, Runtime

MEMORY_MB = 512
FLAGS = ("-XX:TieredStopAtLevel=1",)
"""A cell's driver lives for seconds, so the JVM's second compiler would only cost time."""
HEAP = ("-Xms128m", "-Xmn48m")
"""A large young generation from the start: growing the heap step by step took a tenth of a driver's
CPU time.
"""
DAEMON = ("-Xmx256m", "-XX:+UseSerialGC")
STREAMING = "harness.stages.streaming"
CORES = "2"
MASTER, WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
SIGKILL, SIGKILLED = 9, 128 + 9
"""The signal, and the status with which the worker reports an executor that died by it."""
SCRATCH = "scratch"
"""The cell's folder for Spark's temporary files, removed at the end."""
HOME = "/opt/spark"
OURS = "/opt/lostack"
"""The folder in the driver's image with lostack's programs, and ``jars``."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a driver runs: a module, with Spark's settings and the program's environment."""

    key: str
    name: str
    module: str
    conf: Mapping[str, str]
    env: Mapping[str, str]
    folder: Path
    """The folder of the cell."""
    logs: Path
    told: bool = False
    """Whether the program reads orders from its standard input."""


@dataclass(frozen=True, slots=True)
class Launched:
    """A started driver: the node that faults kill, and the program's node if it is another one."""

    node: Node
    front: Node | None


@dataclass
class Servers:
    """How the master and the worker are started, and the master's URL."""

    master: NodeSpec
    worker: NodeSpec
    url: str
    conf: Mapping[str, str]
    """Further settings for a driver on this cluster."""
    lease: PortLease | None = field(default=None)

    def close(self) -> None:
        """Release the ports."""
        if self.lease is not None:
            self.lease.close()


class SparkGround(Protocol):
    """The interface of a runtime's way to start drivers, masters and workers."""

    @property
    def spark(self) -> str:
        """The Spark release."""

    @property
    def preload(self) -> tuple[str, ...]:
        """Modules that a cell's programs import, so that programs can be forked with
        them loaded.
        """

    @property
    def killed_alone(self) -> bool:
        """Whether an executor dies alone, as its worker reports; otherwise it dies with its worker,
        as the engine reports.
        """

    @property
    def at_hand(self) -> bool:
        """Whether a running driver takes orders: it can then run the queries of many cells, or
        stand by.
        """

    def launch(self, runtime: Runtime, job: Job) -> Launched:
        """Start a driver with its program."""

    def program(self, launched: Launched) -> int | None:
        """Return the process id of the program; ``None`` if it does not run."""

    def servers(self, key: str, folder: Path, logs: Path) -> Servers:
        """Return a cluster with one worker for one cell, not started."""

    def versions(self) -> dict[str, str]:
        """Return the versions besides Kafka's, for the report."""


@dataclass(frozen=True)
class ProcessSparkGround:
    """Starts Spark as processes: the JVM is one node, and the Python program another. Implements
    :class:`SparkGround`.
    """

    install: SparkInstall
    failpoint_jar: Path
    added: tuple[Path, ...] = ()
    """Further jars of the drivers' class path."""
    conf: Mapping[str, str] = field(default_factory=dict)
    """Settings that these jars need."""
    killed_alone: ClassVar[bool] = True
    at_hand: ClassVar[bool] = True

    @property
    def spark(self) -> str:
        """The Spark release of the jars."""
        return self.install.version

    @property
    def preload(self) -> tuple[str, ...]:
        """The module of the Python program; nothing for another release, whose own PySpark cannot
        be preloaded.
        """
        return (STREAMING, *PRELOADS["kafka-python"]) if self.install.site is None else ()

    def launch(self, runtime: Runtime, job: Job) -> Launched:
        """Start the JVM, then the Python program."""
        name = f"{job.key}-{job.name}"
        work = job.folder / SCRATCH / job.name
        gateway = start_gateway(
            runtime,
            self.install,
            work=work,
            name=name,
            conf={**self.conf, **job.conf},
            memory_mb=MEMORY_MB,
            flags=(*FLAGS, *HEAP),
            jars=(self.failpoint_jar, *self.added),
            log=job.logs / f"{job.name}.log",
        )
        front = runtime.start(
            NodeSpec(
                name=f"{name}-front",
                role="front",
                argv=(sys.executable, "-m", job.module),
                log=job.logs / f"{job.name}-front.log",
                env={**self.install.env, **gateway.env, **job.env},
                cwd=Path.cwd(),
                preload=(job.module,) if job.module in self.preload else (),
                stdin_pipe=job.told,
            )
        )
        return Launched(gateway.node, front)

    def program(self, launched: Launched) -> int | None:
        """Return the process id of the Python program."""
        return launched.front.pid if launched.front is not None else None

    def servers(self, key: str, folder: Path, logs: Path) -> Servers:
        """Return two JVMs on loopback; the executor is a third, in the worker's process group."""
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
            env = {
                **self.install.env,
                "SPARK_WORKER_DIR": str(folder.absolute() / "work"),
                "SPARK_LOCAL_DIRS": str(scratch),
            }
            return NodeSpec(f"{key}-{role}", role, argv, env, log=logs / f"{role}.log")

        return Servers(
            spec(
                "master",
                MASTER,
                "--host",
                "127.0.0.1",
                "--port",
                str(port),
                "--webui-port",
                str(page),
            ),
            spec(
                "worker",
                WORKER,
                "--host",
                "127.0.0.1",
                "--cores",
                CORES,
                "--memory",
                "1g",
                "--webui-port",
                str(other_page),
                url,
            ),
            url,
            conf,
            lease,
        )

    def versions(self) -> dict[str, str]:
        """Return the version of Spark."""
        return {"spark": self.spark}


@dataclass(frozen=True)
class DockerSparkGround:
    """Starts Spark as containers: ``spark-submit`` runs the program, as a user would. Implements
    :class:`SparkGround`.
    """

    spark: str
    jars: tuple[str, ...]
    """The names of the connector's jars and of the failpoint jar."""
    killed_alone: ClassVar[bool] = False
    at_hand: ClassVar[bool] = False
    preload: ClassVar[tuple[str, ...]] = ()

    def launch(self, runtime: Runtime, job: Job) -> Launched:
        """Submit the program in its own container, in which JVM and Python die together."""
        # a letter first: Spark refuses host names that begin with a digit
        name = f"{job.name}-{job.key}"
        local = job.conf["spark.master"].startswith("local")
        conf = {
            **LOOPBACK,
            **(
                {}
                if local
                else {
                    "spark.driver.host": runtime.address(name),
                    "spark.driver.bindAddress": runtime.bind,
                }
            ),
            **job.conf,
        }
        options = [
            *FLAGS,
            "-XX:+UseSerialGC",
            f"-Dlog4j2.configurationFile={OURS}/harness/provision/spark-log4j2.properties",
        ]
        argv = (
            f"{HOME}/bin/spark-submit",
            "--driver-memory",
            f"{MEMORY_MB}m",
            "--driver-java-options",
            " ".join(options),
            "--jars",
            ",".join(f"{OURS}/jars/{jar}" for jar in self.jars),
            *(word for key, value in conf.items() for word in ("--conf", f"{key}={value}")),
            f"{OURS}/{job.module.replace('.', '/')}.py",
        )
        spec = NodeSpec(
            name,
            "driver",
            argv,
            dict(job.env),
            log=job.logs / f"{job.name}.log",
            container=ContainerSpec("driver", folders=(job.folder,)),
        )
        return Launched(runtime.start(spec), None)

    def program(self, launched: Launched) -> int | None:
        """Return the id of the Python process that the JVM started."""
        try:
            below = psutil.Process(launched.node.pid).children()
            return next((each.pid for each in below if "python" in each.name()), None)
        except psutil.Error:  # it has just ended
            return None

    def servers(self, key: str, folder: Path, logs: Path) -> Servers:
        """Return two containers; the executor is in the worker's, and dies with it."""
        url = f"spark://master-{key}:7077"

        def spec(role: str, main: str, *words: str) -> NodeSpec:
            env = {
                "SPARK_WORKER_DIR": str(folder / "work"),
                "SPARK_DAEMON_MEMORY": "256m",
                "SPARK_NO_DAEMONIZE": "1",
                "SPARK_DAEMON_JAVA_OPTS": " ".join(DAEMON[1:]),
            }
            inside = ContainerSpec(
                "spark", folders=(folder,), host_pids=False, entrypoint=f"{HOME}/bin/spark-class"
            )
            return NodeSpec(
                f"{role}-{key}",
                role,
                (main, *words),
                env,
                log=logs / f"{role}.log",
                container=inside,
            )

        return Servers(
            spec("master", MASTER, "--host", f"master-{key}", "--port", "7077"),
            spec(
                "worker", WORKER, "--host", f"worker-{key}", "--cores", CORES, "--memory", "1g", url
            ),
            url,
            {},
        )

    def versions(self) -> dict[str, str]:
        """Return the version of Spark; Kafka's versions include the images."""
        return {"spark": self.spark}


def how(end: Exit) -> NodeFields:
    """Return the status and signal of an end, as fields of a history line."""
    return {"status": end.status, "signal": end.signal}


def reported(status: int) -> NodeFields:
    """Return the status and signal of an executor's end, from the status that its worker reports.

    >>> reported(137), reported(1)
    ({'status': None, 'signal': 9}, {'status': 1, 'signal': None})
    """
    return {
        "status": None if status == SIGKILLED else status,
        "signal": SIGKILL if status == SIGKILLED else None,
    }


def refuse_release(other: str | None) -> None:
    """Raise EnvironmentFailure if the user asks for another release than the images have."""
    if other is not None:
        raise EnvironmentFailure(
            f"LOSTACK_SPARK={other} works only in runtime process; unset it, or leave out "
            "--runtime docker"
        )
