"""A broker in nodes of its own, one or several, behind its wire: how they are started, killed,
started again on the same data, and ended.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final

from harness.model.failures import EnvironmentFailure
from harness.model.scenario import Role
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.run.queue_broker import BROKER
from harness.run.runtimes import PROCESSES
from harness.run.wire import start_wire
from harness.runtimes.interface import JAVA_IMAGE, ContainerSpec, NodeSpec
from harness.runtimes.ports import PortLease
from harness.runtimes.power.tracer import PowerTrace, why_no_power_loss

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from harness.provision.java_program import JavaProgram
    from harness.run.runtimes import Runtimes
    from harness.run.wire import RunningWire
    from harness.runtimes.interface import Exit, Node
    from harness.wire.control import WireControl
    from harness.wire.messages import Route


ORDERLY_S: Final = 30.0
"""How many seconds a node may take to end after SIGTERM."""


@dataclass
class _Running:
    """The parts of a broker that change at a restart. All copies of a broker object share them."""

    wire: RunningWire | None = None
    said: str = "nothing"
    told: Mapping[str, str] = field(default_factory=dict)


class ServedNode:
    """A process of a broker, with its routes through the wire. Others of the broker may serve while
    it is down.
    """

    def __init__(self, broker: ServedBroker, name: str) -> None:
        self.name = name
        self.power: PowerTrace | None = None
        """The trace of its present life; ``None``: it is not traced."""
        self._broker = broker
        self._node: Node | None = None

    def process(self) -> Node:
        """Return the process, dead or alive."""
        if self._node is None:
            raise RuntimeError(f"{self.name} was never started")
        return self._node

    @property
    def routes(self) -> Sequence[Route]:
        """Its clients' routes through the wire."""
        return [route for route in self._broker.routes() if route.node == self.name]

    def launch(self) -> None:
        """Start the process on its existing data; do not wait."""
        spec = self._broker.spec_of(self.name)
        if self.power is not None:
            spec = replace(spec, argv=self.power.start(spec.argv))
        self._node = self._broker.runtime.start(spec)

    def kill(self) -> Exit:
        """Send SIGKILL; the wire refuses connections until the process is back."""
        return self._gone(self.process().kill())

    def end(self) -> Exit:
        """Send SIGTERM, and wait until the process has ended in order."""
        return self._gone(self.process().terminate(ORDERLY_S))

    def _gone(self, end: Exit) -> Exit:
        for route in self.routes:
            self._broker.wire.close_route(route.name)
        return end

    def restart(self) -> None:
        """Start the process again on the same data. When it serves, the wire connects again.

        Raises:
            EnvironmentFailure: it does not come up.
        """
        self.launch()
        self._broker.await_serving(self)
        for route in self.routes:
            self._broker.wire.open_route(route.name)


class ServedBroker(ABC):
    """A broker, its wire and their runtime. Safe to use from several threads, one per cell.
    Questions to it may raise OSError.
    """

    start_s: ClassVar[float] = 60.0
    """How many seconds the broker may take until it answers."""

    def __init__(
        self,
        directory: Path,
        ports: int,
        runtimes: Runtimes = PROCESSES,
        names: Sequence[str] = (BROKER,),
    ) -> None:
        """``ports``: how many ports the broker needs. :attr:`ports` then has their numbers;
        ``names``: those of its nodes.
        """
        self.runtime = runtimes.make(directory)
        self._directory = directory
        self._lease = PortLease(ports)
        self.ports = self._lease.ports
        self._up = _Running()
        self.nodes = tuple(ServedNode(self, name) for name in names)

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
        """Return how to start the broker's (first) process, on its existing data."""

    def spec_of(self, name: str) -> NodeSpec:  # noqa: ARG002 - for those with several
        """Return how to start the process of a node, on its existing data."""
        return self.spec()

    @abstractmethod
    def answers(self) -> bool:
        """Say whether the broker serves requests.

        Raises:
            OSError: the broker cannot be reached.
        """

    def serves(self, name: str) -> bool:  # noqa: ARG002 - for those with several
        """Say whether a node of the broker takes connections: a broker that is one, if it answers.

        Raises:
            OSError: the node cannot be reached.
        """
        return self.answers()

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
        """Return the broker's (first) process, dead or alive."""
        return self.nodes[0].process()

    @property
    def power(self) -> PowerTrace | None:
        """The trace of its present life; ``None``: it is not traced."""
        return self.nodes[0].power

    def trace_writes(self, data: Path, *rebuilt: str) -> None:
        """Start the broker below a tracer, so that a fault can take its power away. Does nothing
        where that cannot be done: the fault says why.

        ``data``: the folder of its files, of several nodes that with a folder for each;
        ``rebuilt``: patterns of mapped files in it that the broker makes again from others when it
        starts.
        """
        if not self.runtime.here or why_no_power_loss() is not None:
            return
        several = len(self.nodes) > 1
        for node in self.nodes:
            folder, log = (
                (data / node.name, f"power-{node.name}.log")
                if several
                else (
                    data,
                    "power.log",
                )
            )
            node.power = PowerTrace(folder, self._directory / log, rebuilt)

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
        """Send SIGKILL to the broker, all of it; the wire refuses connections until it is back."""
        first, *_ = [node.kill() for node in self.nodes]
        return first

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
        for node in self.nodes:
            node.launch()
        self._await(self.answers, self.nodes)
        for node in self.nodes:
            if node.power is not None:
                node.power.settle()

    def await_serving(self, node: ServedNode) -> None:
        """Wait until a node that was started serves.

        Raises:
            EnvironmentFailure: it does not come up.
        """
        self._await(partial(self.serves, node.name), (node,))
        if node.power is not None:
            node.power.settle()

    def _await(self, answers: Callable[[], bool], nodes: Sequence[ServedNode]) -> None:
        def answer_or_died() -> bool:
            self.runtime.check()
            for node in nodes:
                if (end := node.process().exit) is not None:
                    said = node.process().log_tail(3)
                    raise EnvironmentFailure(f"{node.name} ended at once ({end}): {said}")
            try:
                return answers()
            except OSError as error:
                self._up.said = str(error)
                return False

        try:
            wait_until(
                answer_or_died,
                within_s=self.start_s,
                because=f"{nodes[0].name} to answer",
                poll_s=0.1,
            )
        except WaitTimeoutError as error:
            raise EnvironmentFailure(
                f"{error} (it said: {self._up.said}); its logs: {self._directory}"
            ) from error
