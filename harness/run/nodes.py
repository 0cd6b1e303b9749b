"""The nodes of one cell: its stages and, if the cell alone uses them, its servers. They write their
lives to the history.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from harness import failpoint
from harness.model import events as kinds
from harness.model.events import NodePhase
from harness.model.failures import CellFailure
from harness.model.scenario import Role
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.provision import environments
from harness.runtimes.interface import PROGRAMS_IMAGE, ContainerSpec, NodeSpec
from harness.runtimes.process.peers import listening_at
from harness.stages.clients import preloads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Unpack

    from harness.controls import Target
    from harness.model.events import NodeFields
    from harness.model.history import HistoryWriter
    from harness.model.tail import SoFar
    from harness.provision.clients import ClientSetup
    from harness.runtimes.interface import Exit, Node, Runtime

A = TypeVar("A", bound=kinds.Event)
READY_S = 30.0
GRACE_S = 30.0
"""How long a process may take to end after SIGTERM: what Kubernetes gives by default."""
CLOSED_S = 5.0
"""How long the ports of a killed server may take to close."""
LIVES = 6
"""How many times a supervised program that ends by itself is started before it counts as
crash-looping.
"""


class IncarnationSettings(Protocol):
    """The settings of a stage program: a frozen dataclass of plain data, one for each
    incarnation.
    """

    @property
    def key(self) -> str:
        """The key of its cell."""

    @property
    def name(self) -> str:
        """The node's name in the cell."""

    @property
    def incarnation(self) -> int:
        """The number of this incarnation, from 1; 0: never started."""

    @property
    def client(self) -> str:
        """The client that it talks through."""

    @property
    def writer(self) -> str:
        """The name of this incarnation, by which attempts and history lines name it."""

    def environment(self) -> dict[str, str]:
        """Return the variables to start the program with."""


def say_of(
    node: Target,
    history: HistoryWriter,
    phase: NodePhase,
    pid: int | None,
    incarnation: int = 0,
    **fields: Unpack[NodeFields],
) -> None:
    """Write into the history what happens to a node."""
    history.write(
        kinds.Node(
            node=node.name,
            role=node.role,
            incarnation=incarnation,
            phase=phase,
            pid=pid,
            **fields,
        )
    )


@dataclass
class StageNode:
    """One stage of a cell over its incarnations. Implements :class:`harness.controls.Target`."""

    role: Role
    module: str
    stage: Any
    """The :class:`IncarnationSettings` of its system."""
    runtime: Runtime
    history: HistoryWriter
    so_far: SoFar
    """The history of its cell so far."""
    logs: Path
    failpoints: Path
    node: Node | None = None
    ready_within_s: float = READY_S
    client: ClientSetup | None = None
    """The environment that the client needs; null: lostack's own."""
    adapter: str = ""
    """The module of the client, if another package brings it."""
    supervised: bool = False
    """Whether a program that has ended by itself is started again, as a supervisor would: behind
    the fault, and in the drain.
    """
    by_supervisor: bool = False
    """Whether a start is that of a supervisor: the program before it has ended by itself."""
    _told: bool = False
    """Whether the end of this incarnation was written down."""
    _asked: bool = False
    """Whether this incarnation was told to end."""

    @property
    def name(self) -> str:
        """The node's name in the cell."""
        return str(self.stage.name)

    def start(self) -> None:
        """Start the next incarnation; does not wait."""
        self.stage = replace(self.stage, incarnation=self.stage.incarnation + 1)
        spec = NodeSpec(
            name=f"{self.stage.key}-{self.name}",
            role=self.role,
            argv=((self.client and self.client.python) or self.runtime.python, "-m", self.module),
            env={
                **self.stage.environment(),
                **environments.variables(),
                **(self.client.variables if self.client else {}),
                failpoint.VARIABLE: str(self.failpoints),
            },
            log=self.logs / f"{self.name}.log",
            cwd=Path.cwd(),
            container=ContainerSpec(
                self.client.image if self.client else PROGRAMS_IMAGE,
                folders=(self.failpoints.parent, *(self.client.folders if self.client else ())),
            ),
            preload=()
            if self.client and self.client.python
            else preloads(self.stage.client, self.adapter),
        )
        self.node = self.runtime.start(spec)
        self._told = self._asked = False
        self._say(NodePhase.STARTED, pid=self.node.pid, supervised=self.by_supervisor)

    def await_ready(self) -> None:
        """Wait until the program reports in its ledger that it is ready, or until it has ended.

        Raises:
            WaitTimeoutError: neither happened in time. It names the last error that the program was
                told, as the wire has seen it.
        """
        try:
            wait_until(
                lambda: self.ended() or self.is_ready(),
                within_s=self.ready_within_s,
                because=f"{self.name} to be ready",
            )
        except WaitTimeoutError as error:
            if told := self._last_error():
                raise WaitTimeoutError(f"{error.because}, {told}", self.ready_within_s) from error
            raise
        if self.is_ready():
            self._say(NodePhase.READY, pid=self._alive().pid)

    def _last_error(self) -> str | None:
        """Say the last error in an answer to its connections."""
        answers = (frame for frame in self.so_far.of(kinds.Frame) if frame.role == self.role)
        told = [frame for frame in answers if frame.error]
        return f"which was told an error last: {told[-1].api}: {told[-1].error}" if told else None

    def is_ready(self) -> bool:
        """Say whether this incarnation has reported in its ledger that it is ready."""
        return bool(self.said(kinds.Ready))

    def said(self, kind: type[A]) -> list[A]:
        """Return the events of a kind in this incarnation's ledger so far."""
        return [event for event in self.so_far.of(kind) if event.by == self.stage.writer]

    def ended(self) -> Exit | None:
        """Return how this incarnation ended; ``None``: it lives. The first call after the end
        writes it to the history.
        """
        self.runtime.check()
        end = self._alive().exit
        if end is not None and not self._told:
            self._told = True
            self._say(
                NodePhase.EXITED,
                pid=end.pid,
                status=end.status,
                signal=end.signal,
                asked=bool(self._asked),
            )
        return end

    @property
    def started(self) -> bool:
        """Whether the stage was ever started."""
        return self.node is not None

    def comes_back(self) -> bool:
        """Say whether this incarnation has ended by itself with an error, and a supervisor starts
        the program again.

        What a SIGKILL has ended was killed by the fault, which starts it again.
        """
        end = None if self.node is None else self.ended()
        failed = end is not None and (bool(end.status) or end.signal not in (None, signal.SIGKILL))
        return self.supervised and failed and self.stage.incarnation < LIVES

    def supervise(self) -> str | None:
        """Start the program again if it comes back; return a message about that, or ``None``."""
        if not self.comes_back():
            return None
        end = self.ended()
        self.begin_supervised()
        return f"the {self.name} ended with {end} and was started again"

    def begin_supervised(self) -> None:
        """Start the next incarnation as a supervisor does; do not wait."""
        self.by_supervisor = True
        try:
            self.begin_again()
        finally:
            self.by_supervisor = False

    def stopped_itself(self) -> bool:
        """Say whether this incarnation has died, stands still, is held or has failed at a
        failpoint.
        """
        if self.node is None:
            return False
        return self.ended() is not None or self.node.stands_still() or self._is_held()

    def _is_held(self) -> bool:
        """Whether its ledger says that a failpoint holds it, or made its work fail."""
        hits = (hit for hit in self.so_far.of(kinds.Failpoint) if hit.action in {"hold", "fail"})
        return any(hit.pid == self._alive().pid for hit in hits)

    def kill(self) -> None:
        """Send SIGKILL, and wait until the process is reaped. If the program kills itself, only
        wait.
        """
        if self.ended() is None:
            self._alive().kill()
            self.ended()

    def tell_to_end(self) -> None:
        """Send SIGTERM; do not wait."""
        self._asked = self._alive().tell_to_end()
        if self._asked:
            self._say(NodePhase.TOLD, pid=self._alive().pid)

    def await_end(self, within_s: float = GRACE_S) -> Exit | None:
        """Wait for the end of the process. If it got SIGTERM and has not ended in time, kill it."""
        if self._alive().wait(within_s) is None and self._asked:
            self.kill()
        return self.ended()

    def pause(self) -> None:
        """Pause the process (SIGSTOP). A program that has stopped itself stays stopped."""
        self._alive().pause()
        self._say(NodePhase.PAUSED, pid=self._alive().pid)

    def resume(self) -> None:
        """Resume the process (SIGCONT)."""
        self._alive().resume()
        self._say(NodePhase.RESUMED, pid=self._alive().pid)

    def restart(self) -> None:
        """Start the next incarnation and wait until it is ready."""
        self.begin_again()
        self.await_back()

    def begin_again(self) -> None:
        """Start the next incarnation; do not wait."""
        self.start()

    def await_back(self) -> None:
        """Wait until it is ready."""
        self.await_ready()

    def _alive(self) -> Node:
        if self.node is None:
            raise RuntimeError(f"{self.name} was never started")
        return self.node

    def _say(self, phase: NodePhase, pid: int | None, **fields: Unpack[NodeFields]) -> None:
        say_of(self, self.history, phase, pid, self.stage.incarnation, **fields)


@dataclass
class ServerNode:
    """A server, the broker or the database, as a node of the one cell that has it to itself.

    Implements :class:`harness.controls.Target`.
    """

    history: HistoryWriter
    process: Callable[[], Node]
    kill_it: Callable[[], Exit]
    restart_it: Callable[[], None]
    name: str = "broker-1"
    role: Role = Role.BROKER
    end_it: Callable[[], Exit] | None = None
    serves_at: Callable[[], Iterable[int]] = tuple
    """The ports of this machine at which it serves: nobody may listen there when it was killed."""

    def end(self) -> None:
        """Shut the server down in an orderly way."""
        if self.end_it is None:
            raise NotImplementedError(
                f"{self.name} cannot be shut down here: it can only be killed"
            )
        end = self.end_it()
        self._say(NodePhase.EXITED, pid=end.pid, status=end.status, signal=end.signal, asked=True)

    def kill(self) -> None:
        """Send SIGKILL to the server; from then on the wire refuses connections to it.

        Raises:
            CellFailure: by the kernel's word the server did not serve before, or serves still.
        """
        ports = set(self.serves_at())
        if dumb := ports - listening_at(ports):
            raise CellFailure(
                f"nobody listens at port {min(dumb)}: {self.name} did not serve there"
            )
        end = self.kill_it()
        self._say(NodePhase.EXITED, pid=end.pid, status=end.status, signal=end.signal)
        try:
            wait_until(
                lambda: not listening_at(ports), within_s=CLOSED_S, because="its ports to close"
            )
        except WaitTimeoutError:
            raise CellFailure(
                f"process {end.pid} was killed as {self.name}, but {self.name} still listens at "
                f"port {min(listening_at(ports), default=0)}: kill must end the server itself"
            ) from None

    def pause(self) -> None:
        """Pause the server's process (SIGSTOP)."""
        self.process().pause()
        self._say(NodePhase.PAUSED, pid=self.process().pid)

    def resume(self) -> None:
        """Resume the server's process (SIGCONT)."""
        self.process().resume()
        self._say(NodePhase.RESUMED, pid=self.process().pid)

    def restart(self) -> None:
        """Start the server again on the same ports and data, wait until it answers, let the wire
        connect again.
        """
        self.restart_it()
        self._say(NodePhase.STARTED, pid=self.process().pid)
        self._say(NodePhase.READY, pid=self.process().pid)

    def _say(self, phase: NodePhase, pid: int | None, **fields: Unpack[NodeFields]) -> None:
        say_of(self, self.history, phase, pid, **fields)
