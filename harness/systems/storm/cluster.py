"""A Storm beside a broker: ZooKeeper with a submission desk, Nimbus, and one supervisor with the
workers of all cells.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import psutil

from harness.model.failures import EnvironmentFailure
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.run.control_port import ControlPort
from harness.run.plain_folders import require_plain_folder
from harness.runtimes.interface import NodeSpec
from harness.runtimes.ports import PortLease
from harness.systems.storm import conf
from harness.systems.storm.desk import ANSWER_S, DeskError, ask
from harness.systems.storm.install import DESK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from harness.runtimes.interface import Exit, Node, Runtime
    from harness.systems.storm.install import StormInstall

UP_S: Final = 90.0
EXITED_S: Final = 20.0
SLOTS: Final = 8
"""How many workers there may be at a time, including those that are about to end."""
NIMBUS: Final = "org.apache.storm.daemon.nimbus.Nimbus"
SUPERVISOR: Final = "org.apache.storm.daemon.supervisor.Supervisor"
ZOOKEEPER: Final = "zookeeper"
NIMBUS_NODE: Final = "nimbus"
SUPERVISOR_NODE: Final = "supervisor"
WORKER: Final = "worker"
WRITER: Final = "writer"
"""A worker's parent, Storm's LogWriter, which writes the worker's output into a log."""
ENDED: Final = "supervisor ended with "
KILLED: Final = f"{ENDED}137"
"""The line for a SIGKILL, by a shell's status."""
OUTLIVES: Final = f'"$@"; echo "{ENDED}$?"; exec sleep infinity'
"""A shell that is the parent of a supervisor whose workers must outlive it: the end of a node ends
all its children.
"""
LEADS: Final = "gained leadership."
STARTED: Final = "Starting supervisor with id"
EXITED: Final = re.compile(r"Worker Process (?P<worker>\S+) exited with code: (?P<code>\d+)")
"""The line in a supervisor's log about the end of a worker."""


@dataclass
class Cluster:
    """ZooKeeper, Nimbus and a supervisor. Safe to use from several threads, one per cell."""

    runtime: Runtime
    install: StormInstall
    directory: Path
    """The folder for its settings, logs and data."""
    alone: bool = False
    """Whether only one cell uses it. A fault may then kill the supervisor, whose workers must
    outlive it.
    """
    shutdown_s: int = 1
    """How long (seconds) a worker may take to end."""
    _lease: PortLease = field(default_factory=lambda: PortLease(4 + SLOTS))
    _nodes: dict[str, Node] = field(default_factory=dict)
    _ours: set[str] = field(default_factory=set)
    """The nodes that a fault, or the end of the run, has stopped."""
    _supervisors: int = 1
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """Start all daemons, without waiting.

        Raises:
            EnvironmentFailure: the folder's name has a space, at which Storm splits options.
        """
        require_plain_folder(self.directory, "Storm")
        here = self.directory.absolute()
        conf.write(here, self._conf())
        self._start(
            ZOOKEEPER,
            DESK,
            str(self._desk.number),
            str(here / "zoo.cfg"),
            flags=("-Dzookeeper.forceSync=no", f"-Dstorm.jar={self.install.topology}"),
            env=self._desk.environment,
        )
        self._start(NIMBUS_NODE, NIMBUS)
        self._start(self._supervisor, SUPERVISOR)

    def await_up(self) -> None:
        """Wait until the supervisor is registered at Nimbus.

        Raises:
            EnvironmentFailure: a daemon ended, or the supervisor is not registered in time.
        """

        def up() -> bool:
            self.check()
            try:
                return any("supervisor" in line for line in ask(self._desk, "list"))
            except DeskError:
                return False

        try:
            wait_until(
                up, within_s=UP_S, because="the supervisor to register at Nimbus", poll_s=0.1
            )
        except WaitTimeoutError as error:
            raise EnvironmentFailure(f"{error}; its logs: {self.directory}") from error

    def submit(self, name: str, words: Sequence[str]) -> None:
        """Submit a topology of lostack's with these arguments.

        Raises:
            DeskError: Nimbus refuses the topology.
        """
        with self._lock:  # one jar is uploaded at a time
            ask(self._desk, "submit", name, *words)

    def end(self, name: str) -> None:
        """Tell Nimbus to end a topology now. Its workers end soon after."""
        ask(self._desk, "kill", name)

    def topologies(self) -> set[str]:
        """Return the names of Nimbus's topologies."""
        return {line["topology"] for line in ask(self._desk, "list") if "topology" in line}

    def ended_with(self, worker: str) -> int | None:
        """Return the exit code of a worker from the supervisor's log (137 is SIGKILL); ``None`` if
        the log has none.
        """
        logs = (
            node.log_path.read_text(errors="replace")
            for name, node in self._nodes.items()
            if name.startswith(SUPERVISOR_NODE)
        )
        said = (found for log in logs for found in EXITED.finditer(log))
        return next((int(found["code"]) for found in said if found["worker"] == worker), None)

    def await_end(self, worker: str) -> int:
        """Wait until the supervisor's log has the exit code of a worker, and return it."""
        because = f"the supervisor to report the end of {worker}"
        wait_until(lambda: self.ended_with(worker) is not None, within_s=EXITED_S, because=because)
        return self.ended_with(worker) or 0

    def process(self, name: str) -> Node:
        """Return the process of a daemon: ``zookeeper``, ``nimbus`` or ``supervisor``."""
        return self._nodes[name]

    def kill_nimbus(self) -> Exit:
        """Kill Nimbus with SIGKILL."""
        self._ours.add(NIMBUS_NODE)
        return self._nodes[NIMBUS_NODE].kill()

    def restart_nimbus(self) -> None:
        """Restart Nimbus, and wait until it leads (after the old session has expired) and knows the
        supervisor.
        """
        log = self._nodes[NIMBUS_NODE].log_path
        before = log.read_text(errors="replace").count(LEADS)
        self._start(NIMBUS_NODE, NIMBUS)
        self._ours.discard(NIMBUS_NODE)
        wait_until(
            lambda: log.read_text(errors="replace").count(LEADS) > before,
            within_s=UP_S,
            because="the next Nimbus to lead",
            poll_s=0.1,
        )
        self.await_up()

    def supervisor_pid(self) -> int:
        """Return the process id of a supervisor whose workers outlive it."""
        return self._java_below(self._supervisor)

    def kill_supervisor(self) -> int:
        """Kill the supervisor alone with SIGKILL, wait until its parent reports that, and return
        its process id.
        """
        pid, log = self.supervisor_pid(), self._nodes[self._supervisor].log_path
        self._ours.add(self._supervisor)
        os.kill(pid, signal.SIGKILL)
        wait_until(
            lambda: KILLED in log.read_text(errors="replace"),
            within_s=EXITED_S,
            because="the supervisor's end",
        )
        return pid

    def restart_supervisor(self) -> None:
        """Start another supervisor on the same folder, and wait until it is registered
        at Nimbus.
        """
        self._supervisors += 1
        self._start(self._supervisor, SUPERVISOR)
        log = self._nodes[self._supervisor].log_path
        wait_until(
            lambda: STARTED in log.read_text(errors="replace"),
            within_s=UP_S,
            because="the next supervisor to start",
        )
        self.await_up()

    def check(self) -> None:
        """Raise EnvironmentFailure if a daemon died by itself."""
        for name, node in self._nodes.items():
            ended = node.exit or (
                self.alone
                and name.startswith(SUPERVISOR_NODE)
                and ENDED in node.log_path.read_text(errors="replace")
            )
            if ended and name not in self._ours:
                raise EnvironmentFailure(
                    f"Storm's {name} ended ({node.exit or 'below its parent'}): {node.log_tail(3)}"
                )

    def close(self) -> None:
        """Stop all daemons, with the workers and their log writers. Safe to call twice."""
        for name, node in reversed(self._nodes.items()):
            self._ours.add(name)
            node.kill()
        self._lease.close()

    @property
    def keeper_port(self) -> int:
        """The port of its ZooKeeper."""
        return self._lease.ports[0]

    def tree(self, path: str) -> dict[str, str]:
        """Return the data of a ZooKeeper node and all nodes below it, by path.

        Raises:
            DeskError: ZooKeeper does not answer.
        """
        return {line["path"]: line["data"] for line in ask(self._desk, "tree", path)}

    @property
    def _supervisor(self) -> str:
        """The node name of the present supervisor."""
        return (
            SUPERVISOR_NODE if self._supervisors == 1 else f"{SUPERVISOR_NODE}-{self._supervisors}"
        )

    @cached_property
    def _desk(self) -> ControlPort:
        return ControlPort(self._lease.ports[3], ANSWER_S)

    def _start(
        self,
        name: str,
        main: str,
        *words: str,
        flags: Sequence[str] = (),
        env: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        here = self.directory.absolute()
        class_path = os.pathsep.join((self.install.classpath, str(here / "conf")))
        argv = (
            str(self.install.java),
            "-Xmx192m",
            *conf.JVM,
            *self._archived(name),
            *flags,
            f"-Dstorm.home={here}",
            f"-Dstorm.log.dir={here / 'logs'}",
            f"-Djava.io.tmpdir={here / 'tmp'}",
            f"-Dlog4j.configurationFile={here / 'log4j2' / 'cluster.xml'}",
            "-Djava.net.preferIPv4Stack=true",
            "-cp",
            class_path,
            main,
            *words,
        )
        if name.startswith(SUPERVISOR_NODE) and self.alone:
            argv = ("/bin/sh", "-c", OUTLIVES, name, *argv)
        log = self.directory / f"{name}.log"
        env = {
            "JAVA_HOME": str(self.install.java.resolve().parent.parent),
            "STORM_CONF_DIR": str(here / "conf"),
            **env,
        }
        self._nodes[name] = self.runtime.start(
            NodeSpec(f"storm-{name}", name, argv, env, cwd=here, log=log)
        )

    def _archived(self, name: str) -> Sequence[str]:
        """Return a node's JVM flags for its class-data archive. All supervisors use the same
        archive.
        """
        return self.install.flags.get(
            SUPERVISOR_NODE if name.startswith(SUPERVISOR_NODE) else name, ()
        )

    def _java_below(self, name: str) -> int:
        """Return the process id of the JVM below a node's shell."""
        return next(
            int(child.pid)
            for child in psutil.Process(self._nodes[name].pid).children()
            if child.name() == "java"
        )

    def _conf(self) -> conf.Conf:
        return conf.Conf(
            host=self.runtime.bind,
            ports=self._lease.ports,
            class_path=self.install.classpath,
            shutdown_s=self.shutdown_s,
            worker_flags=self._archived(WORKER),
            writer_flags=self._archived(WRITER),
        )
