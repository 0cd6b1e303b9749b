"""A driver as a node: the JVM, which faults kill, and the Python process that runs the program in
front of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harness import failpoint
from harness.model import events as kinds
from harness.model.events import NodePhase
from harness.model.waiting import wait_until
from harness.provision.failpoints import CHECKPOINT_CLASS
from harness.run.nodes import StageNode
from harness.stages.stage import TURN
from harness.systems.spark.launcher import Job, Launched

if TYPE_CHECKING:
    from pathlib import Path

    from harness.runtimes.interface import Exit, Node
    from harness.stages.stage import Stage
    from harness.systems.spark.cluster import Cluster
    from harness.systems.spark.launcher import SparkGround
    from harness.systems.spark.session import SharedSession

READY_S = 120.0
"""How long (seconds) a session and a query may take to start: five seconds on a quiet machine."""
# two dozen records are not worth compiling, splitting or replanning: preparing a batch would take
# longer than running it
CONF = {
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_CLASS,
}


@dataclass
class DriverNode(StageNode):
    """The driver of a cell's query, over its incarnations. A fault kills or pauses the JVM; the
    Python front ends with it.
    """

    ground: SparkGround | None = None
    front: Node | None = None
    cluster: Cluster | None = None
    session: SharedSession | None = None
    """The shared session that runs its query; ``None`` if it has a driver of its own."""
    heir: SharedSession | None = None
    """The shared session that runs its query from the second incarnation on, which no fault
    strikes; another JVM of its own would take as much CPU time again. ``None``: there is none.
    """
    ready_within_s: float = READY_S
    _joined: bool = False
    _ahead: Launched | None = None
    """The next incarnation, started ahead as a standby."""

    def stand_by(self) -> None:
        """Start the JVM and session of the next incarnation ahead, or the shared ones. Its query
        begins with :meth:`start`.
        """
        if session := self._next_session():
            session.stand_by()
        elif self.ground is not None and self.ground.at_hand:
            self._ahead = self._launch(self._next())

    def dismiss(self) -> None:
        """Stop the standby."""
        for node in (self._ahead.node, self._ahead.front) if self._ahead else ():
            if node is not None and node.alive:
                node.kill()

    def start(self) -> None:
        """Start the next incarnation, the JVM and its program; or let the standby begin."""
        self.stage = self._next()
        ahead, self._ahead = self._ahead, None
        self.session = self._next_session()
        launched = (
            self.session.begin(self.stage) if self.session else ahead or self._launch(self.stage)
        )
        self.node, self.front = launched.node, launched.front
        self._told = self._joined = False
        waited = ahead or (self.heir and self.session is self.heir)
        self._say(NodePhase.STARTED, pid=self.node.pid, stood_by=bool(waited))
        self._join()
        self._turn(self.stage).touch()

    def _next(self) -> Stage:
        stage: Stage = replace(self.stage, incarnation=self.stage.incarnation + 1)
        return stage

    def _next_session(self) -> SharedSession | None:
        return self.heir if self.started and self.heir else self.session

    def _turn(self, stage: Stage) -> Path:
        """Return the file whose existence tells a standby to begin."""
        return self.failpoints.parent.absolute() / f".turn-{stage.writer}"

    def _launch(self, stage: Stage) -> Launched:
        if self.ground is None:
            raise RuntimeError("a driver needs a Spark")
        conf = CONF | (self.cluster.conf if self.cluster else {})
        env = {
            **stage.environment(),
            failpoint.VARIABLE: str(self.failpoints),
            TURN: str(self._turn(stage)),
        }
        job = Job(
            stage.key, stage.writer, self.module, conf, env, self.failpoints.parent, self.logs
        )
        return self.ground.launch(self.runtime, job)

    def await_ready(self) -> None:
        """Wait until the program says that its query runs, or has ended."""
        wait_until(
            lambda: self.trouble() or self.ended() or self.is_ready(),
            within_s=self.ready_within_s,
            because=f"{self.name} to be ready",
        )
        if self.is_ready():
            self._join()
            self._say(NodePhase.READY, pid=self._alive().pid)

    def ended(self) -> Exit | None:
        """Return how the JVM ended, or ``None``. If JVM and program are one process, a normal end
        is noted as the program's.
        """
        if self.front is None and (end := self._alive().exit) is not None and end.signal is None:
            return end
        return super().ended()

    def kill(self) -> None:
        """Kill the JVM with SIGKILL, wait until it is reaped, then end the Python front.

        In a shared session only the query ends.
        """
        if self.session is not None:
            self.session.end(self.stage, self._over)
            return
        try:
            super().kill()
        finally:
            if self.front is not None and self.front.alive:
                self.front.kill()

    def pause(self) -> None:
        """Stop the driver's JVM (SIGSTOP).

        Raises:
            RuntimeError: the driver is shared with other cells.
        """
        if self.session is not None:
            raise RuntimeError(f"the {self.name} runs the queries of other cells, too")
        super().pause()

    def resume(self) -> None:
        """Let the driver go on, and release the failpoint that holds it."""
        for fired in self.failpoints.glob("*.fired"):
            failpoint.release(self.failpoints, fired.stem)
        super().resume()

    def stand_in(self, name: str) -> DriverNode:
        """Return a second driver of the same query, not started."""
        stage = replace(self.stage, name=name, incarnation=0)
        return replace(
            self, stage=stage, node=None, front=None, _told=False, _joined=False, _ahead=None
        )

    def moves(self) -> int:
        """Return how many history lines its JVM and its program have written so far."""
        lines = self.so_far.lines()
        return lines.get(self.stage.writer, 0) + lines.get(self._jvm, 0)

    def stopped_itself(self) -> bool:
        """Say whether it has come to a failpoint, where it is held until the fault acts."""
        return any(
            event.by in ("failpoint", self._jvm) for event in self.so_far.of(kinds.Failpoint)
        )

    @property
    def _jvm(self) -> str:
        """The writer's name of this incarnation's JVM in the history."""
        return f"{self.stage.writer}-jvm"

    def trouble(self) -> str | None:
        """Say why the program has ended, or return ``None``."""
        if self.session is not None and self._over():
            return f"its query ended: {self._last_words()}"
        end = (self.front or self._alive()).exit
        if self.front is None and end is not None and end.signal is not None:
            return None
        return None if end is None else f"its program ended with {end}: {self._last_words()}"

    def _over(self) -> bool:
        """Whether the program has written that it stopped."""
        return bool(self.said(kinds.Stopped))

    def _join(self) -> None:
        """Write down the process id of the program, once."""
        if self.ground is None or self.node is None or self._joined:
            return
        pid = self.ground.program(Launched(self.node, self.front))
        if pid is not None:
            self._joined = True
            self._say(NodePhase.JOINED, pid=pid, of=self.node.pid)

    def _last_words(self) -> str:
        """Return the reason that the program wrote for its end: the root cause of its error."""
        ends = self.said(kinds.Stopped)
        return kinds.root_cause_line(ends[-1].because) if ends else "it wrote no reason"
