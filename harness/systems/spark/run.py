"""One cell on Spark: the source is filled first, so that the batches, and what shares one with the target, are fixed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from harness import failpoint
from harness.core.scenario import Role
from harness.core.settings import PipelineKind, SavePosition
from harness.core.waiting import wait_until
from harness.sinks.checkpoint import Checkpoint, listed_files, sink_files
from harness.systems.kafka.bench import KafkaBench
from harness.systems.kafka.run import KafkaCellRun, StageEndedError
from harness.systems.spark.driver import DriverNode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.bench import InProgram
    from harness.core.record import Record
    from harness.systems.spark.system import SparkDeployed

FILL_S = 60.0


class SparkBench(KafkaBench):
    """The bench of a cell on Spark: its program is of several processes, so a failpoint holds and the harness acts."""

    def arm_failpoint(self, trigger: InProgram, action: str) -> None:
        """Arm a failpoint at the target, wherever it has come to lie in the log."""
        del action  # whatever is to be done is done to the JVM, by the fault itself
        failpoint.arm(self.failpoints, trigger.name, record=self.load.target.id, action="hold", cell=self.cell.id,
                      history=self.events / "failpoint.jsonl", place=self._place(self.load.target))  # fmt: skip

    def _place(self, record: Record) -> tuple[int, int]:
        from harness.core.record import decode_id  # noqa: PLC0415

        copies = self.deployed.observer.copies(self.topics[0])
        found = [(c.partition, c.offset) for c in copies if c.visible and c.value and decode_id(c.value) == record.id]
        if len(found) != 1:
            raise RuntimeError(f"{record.id} stands {len(found)} times in {self.topics[0]} before the query starts")
        return found[0]


class SparkCellRun(KafkaCellRun):
    """The run of one cell."""

    deployed: SparkDeployed
    _last: dict[int, int]
    """The last visible offset per partition, once the topic is filled."""
    bench_class = SparkBench

    def prepare(self) -> None:
        """Topics, outbox, sink and wire. The fault is armed when the target has its place in the log."""
        self.prepare_ground()

    def load(self) -> None:
        """Fill the topic, arm the fault, start the query."""
        self._producer.start()
        wait_until(super()._exhausted, within_s=FILL_S, because="the topic to be filled")
        self._last = self.deployed.observer.visible(self._topics.source, {})
        self._fault.arm(self._bench)
        self._start_consumers()

    def _exhausted(self) -> bool:
        """Whether the query has nothing left to read: its source is full before it begins."""
        saved = self.saved_positions()
        return all(saved[partition] > offset for partition, offset in self._last.items())

    def stage_trouble(self) -> str | None:
        """Find no trouble, or raise where the query has ended although it should go on."""
        for stage in self._consumers:
            if isinstance(stage, DriverNode) and stage.node is not None and (why := stage.trouble()):
                raise StageEndedError(f"the {stage.name}: {why}")
        return super().stage_trouble()

    def saved_positions(self) -> dict[int, int]:
        """Return the position per partition: from the checkpoint, or from where it is kept outside of it."""
        outside = self.cell.settings.consumer.position is SavePosition.BEFORE_WORK
        found = self._database().positions() if outside else Checkpoint(self.directory / "checkpoint").committed()
        return {p: found.get(p, -1) for p in range(self.cell.settings.topic.partitions)}

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
        return (
            DriverNode(
                stage.role, "harness.programs.streaming", stage.stage, stage.runtime, stage.history, stage.logs,
                stage.failpoints, install=self.deployed.spark, failpoint_jar=self.deployed.failpoint_jar,
            ),
        )  # fmt: skip
