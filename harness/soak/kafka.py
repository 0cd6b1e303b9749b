"""A stream on Kafka: one broker, and a producer and a consumer for each partition, connected
through the wire.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from harness.controls import NotFiredError, injectable
from harness.model.history import HISTORY, HistoryWriter
from harness.model.scenario import Deployment, Role
from harness.model.tail import SoFar
from harness.run.nodes import ServerNode, StageNode
from harness.soak.controls import StreamControls
from harness.soak.flow import RECORD_BYTES
from harness.soak.legs import MARKS, results_name
from harness.stages.bulk.marks import Marks
from harness.stages.bulk.results import Results
from harness.stages.bulk.telling import BulkStage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from harness.soak.drawing import DrawnFault
    from harness.soak.flow import Stream
    from harness.systems.kafka.system import KafkaDeployed, KafkaSystem

KEY: Final = "stream00"
TOPIC: Final = "stream"
SEGMENT_BYTES: Final = 64 << 20
READY_S: Final = 120.0


@dataclass
class _Struck:
    """The fault that is under way, and its history."""

    cell: str
    history: HistoryWriter
    so_far: SoFar


class KafkaFlow:
    """The flow of a stream through Kafka. Implements :class:`harness.soak.flow.Flow`."""

    def __init__(self, asked: Stream, system: KafkaSystem) -> None:
        self._asked = asked
        self._system = system
        self._deployed: KafkaDeployed | None = None
        self._stages: dict[Role, list[StageNode]] = {}
        self._results: list[Results] = []
        self._marks: Marks | None = None
        self._struck: _Struck | None = None
        self._folder: Path | None = None

    # -- Flow --------------------------------------------------------------------------------------

    def begin(self, folder: Path, begins: Sequence[int]) -> None:
        """Start a broker with its wire, then the consumers, then the producers."""
        self._folder = folder
        for name in ("kafka", "logs"):
            (folder / name).mkdir()
        self._deployed = self._system.deploy(Deployment.OWN, folder / "kafka")
        self._deployed.transport.wire.admit(self._asked.folder)  # where its faults are recorded
        topic = {TOPIC: (self._asked.partitions, {"segment.bytes": str(SEGMENT_BYTES)})}
        self._deployed.transport.observer.create_topics(topic)
        self._marks = Marks(folder / MARKS)
        history = HistoryWriter(folder / HISTORY / "runner.jsonl", cell=KEY, by="runner")
        so_far = SoFar(folder / HISTORY)
        self._struck = _Struck(KEY, history, so_far)
        for partition, begin in enumerate(begins):
            for role in (Role.CONSUMER, Role.PRODUCER):
                self._stages.setdefault(role, []).append(self._stage(role, partition, begin))
            self._results.append(Results(folder / results_name(partition)))
        for role in (Role.CONSUMER, Role.PRODUCER):
            for stage in self._stages[role]:
                stage.start()
            for stage in self._stages[role]:
                stage.await_ready()
        history.close()
        self._struck = None

    def strike(self, fault: DrawnFault, folder: Path) -> None:
        """Arm a fault, wait until it has struck, heal it."""
        cell = f"fault-{fault.number}"
        so_far = SoFar(folder / HISTORY)
        history = HistoryWriter(folder / HISTORY / "runner.jsonl", cell=cell, by="runner")
        self._struck = _Struck(cell, history, so_far)
        transport = self._running().transport
        transport.wire.open_cell(cell, KEY, folder / HISTORY / "wire.jsonl", reads=False)
        for stage in self._all():
            stage.history, stage.so_far = history, so_far
            stage.stage = replace(stage.stage, cell=cell, history=str(folder / HISTORY))
        broker = ServerNode(
            history, transport.broker_process, transport.kill_broker, transport.restart_broker
        )
        controls = StreamControls(
            fault,
            cell,
            transport.wire,
            folder,
            self._failpoints,
            history,
            so_far,
            {role: stages[fault.partition] for role, stages in self._stages.items()},
            lambda: broker,
            self._goes_on,
        )
        injected = injectable(fault.scenario.fault)
        injected.arm(controls)
        with suppress(NotFiredError):
            injected.inject(controls)
        controls.disarm()

    def over(self) -> None:
        """Close the fault's history, and delete from the topic the records that the consumers have
        read.
        """
        if self._struck is None:
            return
        for stage in self._all():
            stage.ended()  # writes the end of a stage that ended unasked
        transport = self._running().transport
        transport.wire.close_cell(self._struck.cell)
        self._struck.history.close()
        self._struck = None
        read = transport.observer.positions(self._group, TOPIC)
        transport.observer.delete(
            TOPIC, {partition: offset - 1 for partition, offset in read.items()}
        )  # the last is a cursor

    def results(self, partition: int, table: str, row: int) -> Iterable[tuple[int, int, int]]:
        """Yield the runs in a partition's sink after a row."""
        return self._results[partition].since(table, row)

    def strange(self) -> int:
        """Return how many values in the sinks were no records of this stream, or were damaged."""
        return sum(results.strange() for results in self._results)

    def trouble(self) -> str | None:
        """Say which program has ended although it should run, or return ``None``."""
        self._running().check()
        for stage in self._all():
            end = stage.node.exit if stage.node is not None else None
            if end is not None and not (stage.role is Role.PRODUCER and end.status == 0):
                return f"{stage.name} ended ({end}): {stage.node.log_tail(3) if stage.node else ''}"
        return None

    def close(self) -> None:
        """End all processes, and remove the broker's files."""
        if self._deployed is not None:
            self._deployed.close()
            self._deployed = None
        for results in self._results:
            results.close()
        self._results = []
        if self._marks is not None:
            self._marks.close()
            self._marks = None
        if self._folder is not None:
            shutil.rmtree(self._folder / "kafka", ignore_errors=True)

    # -- inside ------------------------------------------------------------------------------------

    @property
    def _group(self) -> str:
        return f"{KEY}.group"

    @property
    def _failpoints(self) -> Path:
        assert self._folder is not None  # noqa: S101 - it has begun
        return self._folder / "failpoints"

    def _running(self) -> KafkaDeployed:
        if self._deployed is None:
            raise RuntimeError("the stream has not begun, or has ended")
        return self._deployed

    def _all(self) -> list[StageNode]:
        return [stage for stages in self._stages.values() for stage in stages]

    def _goes_on(self) -> bool:
        """Whether some source has records left."""
        assert self._marks is not None  # noqa: S101 - it has begun
        return any(
            self._marks.get(partition, "taken") < end
            for partition, end in enumerate(self._asked.ends)
        )

    def _stage(self, role: Role, partition: int, begin: int) -> StageNode:
        assert self._folder is not None  # noqa: S101 - it has begun
        assert self._struck is not None  # noqa: S101
        folder, asked, transport = self._folder, self._asked, self._running().transport
        told = BulkStage(
            cell=KEY,
            key=KEY,
            name=f"{role}-{partition}",
            incarnation=0,
            bootstrap=transport.bootstrap(role),
            topic=TOPIC,
            group=self._group,
            partition=partition,
            begin=begin,
            end=asked.ends[partition],
            unit=asked.unit,
            record_bytes=RECORD_BYTES,
            semantic=asked.semantic,
            marks=str(folder / MARKS),
            results=str(folder / results_name(partition)),
            history=str(folder / HISTORY),
        )
        return StageNode(
            role,
            f"harness.stages.bulk.{role}",
            told,
            transport.runtime,
            self._struck.history,
            self._struck.so_far,
            folder / "logs",
            self._failpoints,
            ready_within_s=READY_S,
        )
