"""One cell on Spark: the source is filled first, so that the batches, and what shares one with the target, are fixed."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from harness import failpoint
from harness.core import events as kinds
from harness.core.places import Removal, log_fields
from harness.core.record import decode_id
from harness.core.scenario import Role
from harness.core.settings import PipelineKind, SavePosition
from harness.core.waiting import wait_until
from harness.proofs.network import NetworkBad
from harness.sinks.checkpoint import Checkpoint, listed_files, sink_files
from harness.systems.kafka.bench import KafkaBench
from harness.systems.kafka.run import KafkaCellRun, StageEndedError
from harness.systems.spark.cluster import Cluster
from harness.systems.spark.driver import DriverNode
from harness.systems.spark.ground import SCRATCH

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.bench import InProgram, Target
    from harness.core.cell import Cell
    from harness.core.record import Record
    from harness.systems.spark.system import SparkDeployed

FILL_S = 60.0
ZOMBIE_S = 60.0
CHECKPOINT = "checkpoint"


def shares_a_session(cell: Cell) -> bool:
    """Whether the query of a cell may run in a session with others: its driver does not suffer, and runs the tasks itself."""
    need = cell.scenario.fault.evidence()
    suffers = Role.DRIVER in (*need.killed, *need.paused) or need.proof(NetworkBad) is not None
    return not suffers and not cell.settings.consumer.executors


@dataclass
class SparkBench(KafkaBench):
    """The bench of a cell on Spark: its program is of several processes, so a failpoint holds and the harness acts."""

    replaced: list[DriverNode] = field(default_factory=list)
    """Drivers that another has taken the place of."""
    last: dict[int, int] = field(default_factory=dict)
    """The last visible offset per partition, once the topic is filled."""
    cluster: Cluster | None = None
    """What runs the tasks, where that is not the driver."""

    def arm_failpoint(self, trigger: InProgram, action: str) -> None:
        """Arm a failpoint at the target, wherever it has come to lie in the log."""
        del action  # whatever is to be done is done to the JVM, by the fault itself
        failpoint.arm(self.failpoints, trigger.name, record=self.load.target.id, action="hold", cell=self.cell.id,
                      history=self.events / "failpoint.jsonl",
                      place=None if trigger.role is Role.PRODUCER else self._place(self.load.target))  # fmt: skip

    def target(self, role: Role, node: str | None = None) -> Target:
        """Return the node of a role; the executor is the cluster's."""
        if role is Role.EXECUTOR and self.cluster is not None:
            return self.cluster
        return super().target(role, node)

    def lose_checkpoint(self) -> None:
        """Remove the checkpoint, and say how large it was."""
        folder = self.events.parent / CHECKPOINT
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        shutil.rmtree(folder)
        self.say("forgot", file=CHECKPOINT, bytes_before=size, bytes_after=0)

    def expire(self) -> None:
        """Delete the batch in hand, and all before it; say what goes."""
        topic, before = self.topics[0], self._checkpoint().planned()
        gone = [copy for copy in self.deployed.observer.copies(topic) if copy.offset < before.get(copy.partition, 0)]
        for copy in gone:
            self.history.write(kinds.REMOVED, why=Removal.RETENTION, topic=topic, record=decode_id(copy.value),
                               visible=copy.visible, **log_fields(copy.partition, copy.epoch, copy.offset))  # fmt: skip
        self.deployed.observer.delete(topic, before)
        self.say("forgot", file=topic, records=len(gone))

    def _checkpoint(self) -> Checkpoint:
        """Return the checkpoint of the driver that is there, or was last."""
        folder = self.events.parent / CHECKPOINT
        outside = self.cell.settings.consumer.position is SavePosition.BEFORE_WORK
        driver = next(stage for stage in self.stages if stage.role is Role.DRIVER)
        return Checkpoint(folder / str(driver.stage.incarnation) if outside else folder)

    def stand_in(self, role: Role) -> None:
        """Start another driver on the same checkpoint."""
        first = self.target(role)
        if not isinstance(first, DriverNode):
            raise TypeError(f"nobody stands in for a {role}")
        second = first.stand_in("stand-in")
        self.stages = (*(stage for stage in self.stages if stage is not first), second)
        self.replaced.append(first)
        second.start()
        second.await_ready()

    def await_zombie(self, node: Target) -> None:
        """Wait until the replaced driver has written something down, or has ended."""
        if not isinstance(node, DriverNode):
            raise TypeError(f"{node.name} was not replaced")
        before = node.moves()
        wait_until(lambda: node.moves() > before or node.trouble(), within_s=ZOMBIE_S, because="the zombie to go on")
        alone = Checkpoint(self.events.parent / CHECKPOINT / str(node.stage.incarnation))

        def done() -> Any:
            reached = alone.committed()  # of a checkpoint that nobody else has; a shared one it dies of
            return node.trouble() or (reached and all(reached[p] > offset for p, offset in self.last.items()))

        wait_until(done, within_s=ZOMBIE_S, because="the zombie to be done", poll_s=0.05)

    def _place(self, record: Record) -> tuple[int, int]:
        copies = self.deployed.observer.copies(self.topics[0])
        found = [(c.partition, c.offset) for c in copies if c.visible and c.value and decode_id(c.value) == record.id]
        if len(found) != 1:
            raise RuntimeError(f"{record.id} stands {len(found)} times in {self.topics[0]} before the query starts")
        return found[0]


class SparkCellRun(KafkaCellRun):
    """The run of one cell."""

    deployed: SparkDeployed
    bench_class = SparkBench
    _bench: SparkBench

    def prepare(self) -> None:
        """Topics, outbox, sink and wire. The fault is armed when the target has its place in the log."""
        self._bench.cluster = self._cluster
        self.prepare_ground()

    def load(self) -> None:
        """Fill the topic, or as much of it as comes before the target; arm the fault; start the query."""
        goes_on = self.cell.scenario.source_goes_on
        if goes_on:
            self._fault.arm(self._bench)
        self._producer.start()
        if self._bench.cluster is None:
            self._driver.stand_by()
        wait_until(self._producer.stopped_itself, within_s=FILL_S, because="the topic to be filled")
        self._bench.last = self.deployed.observer.visible(self._topics.source, {})
        if not goes_on:
            self._fault.arm(self._bench)
        if self._bench.cluster is not None:
            self._bench.cluster.start()
        self._driver.start()
        if Role.DRIVER in self._fault.evidence().killed:  # meanwhile its successor gets ready
            self._driver.stand_by()
        self._driver.await_ready()
        if self._bench.cluster is not None:
            self._bench.cluster.await_executor()

    @property
    def _driver(self) -> DriverNode:
        return next(stage for stage in self._consumers if isinstance(stage, DriverNode))

    def close(self) -> None:
        """End the drivers, those that were replaced too, and leave the wire."""
        with ExitStack() as ends:  # the last comes first
            ends.callback(shutil.rmtree, self.directory / SCRATCH, ignore_errors=True)
            if self._cluster is not None:
                ends.callback(self._cluster.close)
            ends.callback(super().close)
            for stage in reversed((*self._bench.stages, *self._bench.replaced)):
                if isinstance(stage, DriverNode):
                    ends.callback(stage.dismiss)
                if stage.started:
                    ends.callback(stage.kill)

    def _exhausted(self) -> bool:
        """Whether the query has nothing left to read (where its source is full before it begins), or nothing is to come."""
        if self.cell.scenario.source_goes_on:
            return super()._exhausted()
        saved = self.saved_positions()
        return all(saved[partition] > offset for partition, offset in self._bench.last.items())

    def stage_trouble(self) -> str | None:
        """Find no trouble, or raise where the query has ended although it should go on."""
        for stage in self._bench.stages:
            if isinstance(stage, DriverNode) and stage.node is not None and (why := stage.trouble()):
                raise StageEndedError(f"the {stage.name}: {why}")
            if stage.started and stage.role is Role.DRIVER and (end := stage.ended()) is not None:
                raise StageEndedError(f"the {stage.name} ended with {end}")
        return None

    def saved_positions(self) -> dict[int, int]:
        """Return the position per partition: from the checkpoint, or from where it is kept outside of it."""
        outside = self.cell.settings.consumer.position is SavePosition.BEFORE_WORK
        found = self._database().positions() if outside else Checkpoint(self.directory / CHECKPOINT).committed()
        return self._every_partition(found)

    def sink_size(self) -> Any:
        """Return a value that changes while the sink is not quiet."""
        if self.cell.scenario.pipeline is PipelineKind.STREAM_TO_FILES:
            return tuple(sorted(str(path) for path in self._files()))
        return super().sink_size()

    def _observe_sink(self) -> None:
        if self.cell.scenario.pipeline is not PipelineKind.STREAM_TO_FILES:
            super()._observe_sink()
            return
        order = 0
        for file in self._files():
            for row in pq.read_table(file).to_pylist():
                order += 1
                origin = [int(word) for word in bytes(row["origin"], "ascii").split(b".")]
                self._recorded(row["value"], row["key"].decode("ascii", "replace"), order, origin, None)

    def _files(self) -> Iterator[Path]:
        listed = self.cell.settings.consumer.listed
        return (listed_files if listed else sink_files)(self.directory / "files")

    def _consuming_stages(self) -> tuple[DriverNode, ...]:
        stage = self._stage(Role.DRIVER, "driver")
        self._cluster = None
        if self.cell.settings.consumer.executors:
            self._cluster = Cluster(stage.runtime, self.deployed.spark, self.history, self.directory, self.cell.key, stage.logs)
        return (
            DriverNode(
                stage.role, "harness.programs.streaming", stage.stage, stage.runtime, stage.history, stage.so_far, stage.logs,
                stage.failpoints, ground=self.deployed.spark, cluster=self._cluster,
                session=self.deployed.session if self.deployed.spark.at_hand and shares_a_session(self.cell) else None,
            ),
        )  # fmt: skip
