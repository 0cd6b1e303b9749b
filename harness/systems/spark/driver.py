"""A driver as a node: the JVM, which is what dies, and the Python front that holds the program."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness import failpoint
from harness.core.history import SUFFIX
from harness.core.waiting import wait_until
from harness.setup.failpoints import CHECKPOINT_CLASS
from harness.systems.kafka.nodes import StageNode
from harness.systems.spark.ground import Job, Launched

if TYPE_CHECKING:
    from harness.runtimes.interface import Exit, Node
    from harness.systems.spark.cluster import Cluster
    from harness.systems.spark.ground import SparkGround

READY_S = 120.0
"""A session and a query: five seconds on a quiet machine."""
MOST_WORDS = 200
# of two dozen records nothing is compiled, split or planned anew: a batch would take longer to prepare than to run
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
    """The driver of a cell's query over its incarnations. Killed and paused is the JVM; the front ends with it."""

    ground: SparkGround | None = None
    front: Node | None = None
    cluster: Cluster | None = None
    ready_within_s: float = READY_S
    _joined: bool = False

    def start(self) -> None:
        """Start the next incarnation: the JVM and its program."""
        if self.ground is None:
            raise RuntimeError("a driver needs a Spark")
        self.stage = replace(self.stage, incarnation=self.stage.incarnation + 1)
        marks = {
            "lostack.failpoints": str(self.failpoints),
            "lostack.history": f"{self.stage.history}/{self.stage.writer}-jvm{SUFFIX}",
            "lostack.cell": self.stage.cell,
            "lostack.by": f"{self.stage.writer}-jvm",
        }
        conf = CONF | (self.cluster.conf if self.cluster else {})
        env = {**self.stage.environment(), failpoint.VARIABLE: str(self.failpoints)}
        launched = self.ground.launch(self.runtime, Job(self.stage.key, self.name, self.module, conf, marks, env,
                                                        self.failpoints.parent, self.logs))  # fmt: skip
        self.node, self.front = launched.node, launched.front
        self._told = self._joined = False
        self._say("started", pid=self.node.pid)
        self._join()

    def await_ready(self) -> None:
        """Wait until the program says that its query runs; returns where it has ended."""
        wait_until(lambda: self.trouble() or self.ended() or self.is_ready(), within_s=self.ready_within_s,
                   because=f"{self.name} to be ready")  # fmt: skip
        if self.is_ready():
            self._join()
            self._say("ready", pid=self._alive().pid)

    def ended(self) -> Exit | None:
        """How the JVM ended. Where it ends with its program, by itself, that is the program's end, and told as such."""
        if self.front is None and (end := self._alive().exit) is not None and end.signal is None:
            return end
        return super().ended()

    def kill(self) -> None:
        """SIGKILL the JVM, and wait until it is reaped; then end the front, which has nothing to stand before."""
        super().kill()
        if self.front is not None and self.front.alive:
            self.front.kill()

    def resume(self) -> None:
        """Let it go on, past the failpoint that holds it."""
        for fired in self.failpoints.glob("*.fired"):
            failpoint.release(self.failpoints, fired.stem)
        super().resume()

    def stand_in(self, name: str) -> DriverNode:
        """Return another driver of the same query."""
        return replace(
            self, stage=replace(self.stage, name=name, incarnation=0), node=None, front=None, _told=False, _joined=False
        )

    def moves(self) -> int:
        """How much its JVM and its program have written down so far, in bytes."""
        return sum(file.stat().st_size for file in Path(self.stage.history).glob(f"{self.stage.writer}*{SUFFIX}"))

    def stopped_itself(self) -> bool:
        """Whether it has died, or stands still at a failpoint: it is held there, for the harness to act."""
        told = (Path(self.stage.history, f"{name}{SUFFIX}") for name in ("failpoint", f"{self.stage.writer}-jvm"))
        return any(file.exists() and b'"event":"failpoint"' in file.read_bytes() for file in told)

    def trouble(self) -> str | None:
        """Why the program in front has ended, if it has."""
        end = (self.front or self._alive()).exit
        if self.front is None and end is not None and end.signal is not None:
            return None
        return None if end is None else f"its program ended with {end}: {self._last_words()}"

    def _join(self) -> None:
        """Write down, once, which process the program is."""
        if self.ground is None or self.node is None or self._joined:
            return
        pid = self.ground.program(Launched(self.node, self.front))
        if pid is not None:
            self._joined = True
            self._say("joined", pid=pid, of=self.node.pid)

    def _last_words(self) -> str:
        """What the program wrote down of its end: where an error has causes, the first of them all."""
        ledger = Path(self.stage.history, f"{self.stage.writer}{SUFFIX}")
        ends = [line for line in ledger.read_text().splitlines() if '"event":"stopped"' in line] if ledger.exists() else []
        told = str(json.loads(ends[-1])["because"]).splitlines() if ends else ["it left no word"]
        return [line for line in told if line.startswith(("Caused by: ", told[0]))][-1][:MOST_WORDS]
