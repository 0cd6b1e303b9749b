"""Kafka deployed: one broker, one wire in front of it, one observer behind it."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from typing import TYPE_CHECKING

from harness.core.waiting import WaitTimeoutError, wait_until
from harness.interfaces import EnvironmentFailure
from harness.runtimes.interface import NodeSpec
from harness.runtimes.ports import PortLease
from harness.runtimes.process.runtime import ProcessRuntime
from harness.setup.kafka import ensure_kafka
from harness.systems.kafka.broker import WIRE_ROLES, Broker, Ports
from harness.systems.kafka.observer import Observer
from harness.systems.kafka.run import KafkaCellRun
from harness.wire.control import WireControl
from harness.wire.messages import Route

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.core.cell import Cell
    from harness.core.history import HistoryWriter
    from harness.core.scenario import Deployment, Role
    from harness.runtimes.interface import Exit, Node, Runtime
    from harness.setup.kafka import KafkaInstall

WIRE_START_S = 20.0


class KafkaSystem:
    """Kafka in runtime ``process``."""

    name = "kafka"

    def __init__(self) -> None:
        self._install: KafkaInstall | None = None

    def prepare(self, say: Callable[[str], None]) -> None:
        """Fetch Java, the jars and the class-data archive, where they are not there yet."""
        self._install = ensure_kafka(say)

    def deploy(self, need: Deployment, directory: Path) -> KafkaDeployed:
        """Start a broker with its wire; ready when the broker has acknowledged a write."""
        del need  # shared or not, a deployment is the same; the runner decides who may share it
        if self._install is None:
            raise RuntimeError("prepare() comes first")
        deployed = KafkaDeployed(self._install, directory)
        try:
            deployed.start()
        except WaitTimeoutError as error:
            deployed.close()
            raise EnvironmentFailure(f"Kafka did not come up: {error}; its logs: {directory}") from error
        except BaseException:
            deployed.close()
            raise
        return deployed

    def versions(self) -> dict[str, str]:
        """Kafka, its client, Java and Python."""
        found = {"kafka-python": importlib.metadata.version("kafka-python"), "python": sys.version.split()[0]}
        if self._install is not None:
            found |= {"kafka": self._install.version, "java": self._install.java_version}
        return found


class KafkaDeployed:
    """A running broker behind its wire. Safe to use from several threads, one per cell."""

    def __init__(self, install: KafkaInstall, directory: Path) -> None:
        self.runtime: Runtime = ProcessRuntime(directory=directory)
        self._directory = directory
        self._lease = PortLease(2 + 2 * len(WIRE_ROLES))
        controller, direct, *others = self._lease.ports
        half = len(WIRE_ROLES)
        self._ports = Ports(
            controller, direct,
            dict(zip(WIRE_ROLES, others[:half], strict=True)), dict(zip(WIRE_ROLES, others[half:], strict=True)),
        )  # fmt: skip
        self.broker = Broker(self.runtime, install, directory, self._ports, name="broker-1")
        self.observer = Observer(self.broker.bootstrap, self.runtime.check)
        self._wire: WireControl | None = None
        self._wire_node: Node | None = None

    @property
    def wire(self) -> WireControl:
        """The wire's control."""
        if self._wire is None:
            raise RuntimeError("the wire is not up")
        return self._wire

    def start(self) -> None:
        """Start wire and broker."""
        self._start_wire()
        self.broker.format()
        self.broker.start()
        self.observer.wait_ready()

    def bootstrap(self, role: Role) -> str:
        """The address that nodes of a role are given: the wire's."""
        return f"127.0.0.1:{self._ports.wire[str(role)]}"

    def cell_run(self, cell: Cell, directory: Path, history: HistoryWriter) -> KafkaCellRun:
        """Return the run of one cell."""
        return KafkaCellRun(self, cell, directory, history)

    def check(self) -> None:
        """Raise EnvironmentFailure where guardian or wire have died."""
        self.runtime.check()
        if self._wire_node is not None and self._wire_node.exit is not None:
            raise EnvironmentFailure(f"the wire ended ({self._wire_node.exit}): {self._wire_node.log_tail(3)}")

    def broker_process(self) -> Node:
        """The broker's process."""
        if self.broker.node is None:
            raise RuntimeError("the broker was never started")
        return self.broker.node

    def kill_broker(self) -> Exit:
        """SIGKILL the broker; the wire refuses connections until it is back."""
        end = self.broker_process().kill()
        for role in WIRE_ROLES:
            self.wire.close_route(role)
        self.observer.close()
        return end

    def restart_broker(self) -> None:
        """Start the broker again on the same data; the wire connects again once it has acknowledged a write."""
        self.broker.start()
        self.observer.wait_ready()
        for role in WIRE_ROLES:
            self.wire.open_route(role)

    def close(self) -> None:
        """End everything."""
        self.observer.close()
        if self._wire is not None:
            self._wire.close()
        self.runtime.close()
        self._lease.close()

    def _start_wire(self) -> None:
        log = self._directory / "wire.log"
        spec = NodeSpec(
            name="wire", role="wire", log=log, stdin_pipe=True,
            argv=(sys.executable, "-m", "harness.wire", "--history", str(self._directory)),
        )  # fmt: skip
        self._wire_node = self.runtime.start(spec)

        def control_port() -> int | None:
            if self._wire_node is not None and self._wire_node.exit is not None:
                raise EnvironmentFailure(f"the wire ended at once: {self._wire_node.log_tail(3)}")
            for line in log.read_text().splitlines() if log.exists() else ():
                if line.startswith('{"control"'):
                    return int(json.loads(line)["control"])
            return None

        port = wait_until(control_port, within_s=WIRE_START_S, because="the wire to start")
        self._wire = WireControl.connect(port)
        for role in WIRE_ROLES:
            self._wire.add_route(Route(role, "broker-1", role, self._ports.wire[role], self._ports.broker[role]))
