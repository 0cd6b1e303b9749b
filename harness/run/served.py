"""A broker in a node of its own, behind its wire: how it is started, killed, started again on the
same data, and ended.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from harness.model.failures import EnvironmentFailure
from harness.model.scenario import Role
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.run.queues import BROKER
from harness.run.runtimes import PROCESSES
from harness.run.wire import start_wire
from harness.runtimes.interface import JAVA_IMAGE, ContainerSpec, NodeSpec
from harness.runtimes.ports import PortLease
from harness.runtimes.power.tracer import PowerTrace, why_no_power_loss

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from harness.provision.java_program import JavaProgram
    from harness.run.runtimes import Runtimes
    from harness.run.wire import RunningWire
    from harness.runtimes.interface import Exit, Node
    from harness.wire.control import WireControl
    from harness.wire.messages import Route


@dataclass
class _Running:
    """The parts of a broker that change at a restart. All copies of a broker object share them."""

    wire: RunningWire | None = None
    node: Node | None = None
    said: str = "nothing"
    told: Mapping[str, str] = field(default_factory=dict)
    power: PowerTrace | None = None


class ServedBroker(ABC):
    """A broker, its wire and their runtime. Safe to use from several threads, one per cell.
    Questions to it may raise OSError.
    """

    start_s: ClassVar[float] = 60.0
    """How many seconds the broker may take until it answers."""

    def __init__(self, directory: Path, ports: int, runtimes: Runtimes = PROCESSES) -> None:
        """``ports``: how many ports the broker needs. :attr:`ports` then has their numbers."""
        self.runtime = runtimes.make(directory)
        self._directory = directory
        self._lease = PortLease(ports)
        self.ports = self._lease.ports
        self._up = _Running()

    @abstractmethod
    def routes(self) -> Sequence[Route]:
        """Return the clients' routes through the broker's wire."""

    def own_routes(self) -> Sequence[Route]:
        """Return the routes by which the broker connects to itself. They stay open while the broker
        is down.
        """
        return ()

    @abstractmethod
    def spec(self) -> NodeSpec:
        """Return how to start the broker's process, on its existing data."""

    @abstractmethod
    def answers(self) -> bool:
        """Say whether the broker serves requests.

        Raises:
            OSError: the broker cannot be reached.
        """

    def on_jars(
        self,
        program: JavaProgram,
        asked_at: int,
        *words: str,
        flags: tuple[str, ...] = (),
        env: Mapping[str, str] = MappingProxyType({}),
    ) -> NodeSpec:
        """Return the node of a broker that is a Java program. The node can read and write its
        deployment's folder.

        ``asked_at``: the broker's control port; ``words``: the program's arguments; ``flags``:
        further options of its JVM; ``env``: its variables.
        """
        folders = (self._directory.absolute(), *program.folders)
        return NodeSpec(
            name=BROKER,
            role=Role.BROKER,
            argv=program.command(*words, flags=flags),
            env=env,
            log=self._directory / f"{BROKER}.log",
            container=ContainerSpec(
                JAVA_IMAGE, ports=(asked_at,), folders=folders, host_pids=False, keep=True
            ),
        )

    @property
    def wire(self) -> WireControl:
        """The wire's control."""
        return self._running_wire.control

    @property
    def wire_node(self) -> Node:
        """The wire's process."""
        return self._running_wire.node

    @property
    def _running_wire(self) -> RunningWire:
        if self._up.wire is None:
            raise RuntimeError("the wire is not up")
        return self._up.wire

    def process(self) -> Node:
        """Return the broker's process, dead or alive."""
        if self._up.node is None:
            raise RuntimeError("the broker was never started")
        return self._up.node

    @property
    def power(self) -> PowerTrace | None:
        """The trace of the broker's present life; ``None``: it is not traced."""
        return self._up.power

    def trace_writes(self, data: Path, *rebuilt: str) -> None:
        """Start the broker below a tracer, so that a fault can take its power away. Does nothing
        where that cannot be done: the fault says why.

        ``data``: the folder of its files; ``rebuilt``: patterns of mapped files in it that the
        broker makes again from others when it starts.
        """
        if self.runtime.here and why_no_power_loss() is None:
            self._up.power = PowerTrace(data, self._directory / "power.log", rebuilt)

    def start(self) -> None:
        """Start wire and broker, and wait until the broker answers.

        Raises:
            EnvironmentFailure: the broker does not come up.
        """
        self._up.wire = start_wire(
            self.runtime, self._directory, (*self.routes(), *self.own_routes())
        )
        self._launch()

    def kill(self) -> Exit:
        """Send SIGKILL to the broker; the wire refuses connections until it is back."""
        end = self.process().kill()
        for route in self.routes():
            self.wire.close_route(route.name)
        return end

    def restart(self) -> None:
        """Start the broker again on the same data. When it answers, the wire connects again.

        Raises:
            EnvironmentFailure: the broker does not come up.
        """
        self._launch()
        for route in self.routes():
            self.wire.open_route(route.name)

    @property
    def told(self) -> Mapping[str, str]:
        """The settings of the cell that has the broker to itself; a user's are not among them."""
        return self._up.told

    def become(self, told: Mapping[str, str]) -> None:
        """Use a cell's settings; restart the broker if they differ from the present ones.

        Raises:
            EnvironmentFailure: the broker does not come up again.
        """
        if told != self.told:
            self._up.told = told
            self.kill()
            self.restart()

    def check(self) -> None:
        """Raise EnvironmentFailure if the guardian or the wire has died by itself."""
        self.runtime.check()
        if self._up.wire is not None:
            self._up.wire.check()

    def close(self) -> None:
        """End broker and wire. Safe to call twice, and if the broker never came up."""
        if self._up.wire is not None:
            self._up.wire.close()
        self.runtime.close()
        self._lease.close()

    def _launch(self) -> None:
        spec = self.spec()
        if self.power is not None:
            spec = replace(spec, argv=self.power.start(spec.argv))
        self._up.node = self.runtime.start(spec)
        self._await_answer()
        if self.power is not None:
            self.power.settle()

    def _await_answer(self) -> None:
        try:
            wait_until(
                self._answers_or_died,
                within_s=self.start_s,
                because=f"{BROKER} to answer",
                poll_s=0.1,
            )
        except WaitTimeoutError as error:
            raise EnvironmentFailure(
                f"{error} (it said: {self._up.said}); its logs: {self._directory}"
            ) from error

    def _answers_or_died(self) -> bool:
        self.runtime.check()
        if (node := self.process()).exit is not None:
            raise EnvironmentFailure(f"{BROKER} ended at once ({node.exit}): {node.log_tail(3)}")
        try:
            return self.answers()
        except OSError as error:
            self._up.said = str(error)
            return False
