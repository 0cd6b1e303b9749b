"""The query of a cell: its drivers, its cluster, its checkpoint, and the topic that is filled
before the query starts.
"""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.faults import Kill
from harness.model.record import decode_id
from harness.model.scenario import Role
from harness.model.waiting import wait_until
from harness.proofs.network import NetworkBad
from harness.run.drain import StageEndedError
from harness.stages.consumer_settings import SavePosition
from harness.stages.settings import Settings
from harness.stages.sinks.checkpoint import Checkpoint
from harness.systems.spark.cluster import Cluster
from harness.systems.spark.driver import DriverNode
from harness.systems.spark.launcher import SCRATCH

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from harness.controls import AtWrite, Fired, InProgram, OnWire, Stop, Target
    from harness.model import events as kinds
    from harness.model.cell import Cell
    from harness.model.record import Record
    from harness.run.nodes import StageNode
    from harness.run.sinks import Database
    from harness.run.stages import Producing
    from harness.run.who import CellNodes
    from harness.systems.kafka.scene import Scene
    from harness.systems.spark.launcher import SparkGround
    from harness.systems.spark.session import SharedSession
    from harness.wire.rules import Rule

FILL_S = 60.0
CHECKPOINT = "checkpoint"


def shares_a_session(cell: Cell) -> bool:
    """Say whether a cell's query may run in a shared session: no fault strikes its driver."""
    need = cell.scenario.fault.evidence()
    suffers = Role.DRIVER in (*need.killed, *need.paused) or need.proof(NetworkBad) is not None
    return not suffers and _goes_on(cell)


def dies_once(cell: Cell) -> bool:
    """Say whether the second driver's query may run in a shared session: all that the fault does to
    the driver is to kill the first one.
    """
    fault = cell.scenario.fault
    return isinstance(fault, Kill) and Role.DRIVER in fault.victims and _goes_on(cell)


def _goes_on(cell: Cell) -> bool:
    """Say whether a query needs nothing but a session: no executors, and nobody who starts it again
    when it has read what there is.
    """
    query = Settings.of(cell.settings).consumer.query
    return not (query.executors or query.available_now)


class Query:
    """The query of one cell. Implements :class:`harness.run.parts.Stages`; opened and closed with
    the cell.

    ``stage``: the settings of its driver; ``session``: the shared session, used if the cell may
    share one.
    """

    def __init__(
        self, scene: Scene, stage: StageNode, spark: SparkGround, session: SharedSession
    ) -> None:
        self._scene = scene
        self.cluster: Cluster | None = None
        """The cluster that runs the tasks; ``None`` if the driver runs them itself."""
        if scene.settings.consumer.query.executors:
            self.cluster = Cluster(
                stage.runtime, spark, scene.history, scene.directory, scene.cell.key, stage.logs
            )
        self.driver = DriverNode(
            stage.role,
            "harness.stages.streaming",
            stage.stage,
            stage.runtime,
            stage.history,
            stage.so_far,
            stage.logs,
            stage.failpoints,
            ground=spark,
            cluster=self.cluster,
            session=session if spark.at_hand and shares_a_session(scene.cell) else None,
            heir=session if spark.at_hand and dies_once(scene.cell) else None,
        )
        self._replaced: list[DriverNode] = []
        self.last: Mapping[int, int] = {}
        """The last visible offset per partition, once the topic is filled."""

    # --- its processes ----------------------------------------------------------------------------

    def open(self) -> None:
        """Do nothing: the query starts when the topic is filled."""

    def stand_by(self) -> None:
        """Start the driver's JVM ahead, unless it needs a cluster first."""
        if self.cluster is None:
            self.driver.stand_by()

    def start(self) -> None:
        """Start the query, and wait until it runs. If the fault kills the driver, also start what
        runs the query next.
        """
        if self.cluster is not None:
            self.cluster.start()
        self.driver.start()
        if Role.DRIVER in self._scene.cell.scenario.fault.evidence().killed:
            self.driver.stand_by()
        self.driver.await_ready()
        if self.cluster is not None:
            self.cluster.await_executor()

    def replace_driver(self) -> DriverNode:
        """Replace the driver by a second one, and return that, not started."""
        self._replaced.append(self.driver)
        self.driver = self.driver.stand_in("stand-in")
        return self.driver

    def trouble(self) -> str | None:
        """Return ``None``: a running query is no trouble.

        Raises:
            StageEndedError: the query has ended although it should go on.
        """
        if self.driver.node is not None and (why := self.driver.trouble()):
            raise StageEndedError(f"the {self.driver.name}: {why}")
        if self.driver.started and (end := self.driver.ended()) is not None:
            raise StageEndedError(f"the {self.driver.name} ended with {end}")
        return None

    def close(self) -> None:
        """Stop all drivers, also the replaced ones, and the cluster."""
        with ExitStack() as ends:  # the last comes first
            ends.callback(shutil.rmtree, self._scene.directory / SCRATCH, ignore_errors=True)
            if self.cluster is not None:
                ends.callback(self.cluster.close)
            for driver in (*self._replaced, self.driver):
                ends.callback(driver.dismiss)
                if driver.started:
                    ends.callback(driver.kill)

    # --- what it has read -------------------------------------------------------------------------

    @property
    def checkpoint(self) -> Path:
        """The folder of the query's checkpoint."""
        return self._scene.directory / CHECKPOINT

    @property
    def _outside(self) -> bool:
        """Whether the position is saved outside the checkpoint. Each driver then has its own
        checkpoint.
        """
        return self._scene.settings.consumer.position is SavePosition.BEFORE_WORK

    def present(self) -> Checkpoint:
        """Return the checkpoint of the present or last driver."""
        return Checkpoint(
            self.checkpoint / self.driver.stage.writer if self._outside else self.checkpoint
        )

    def batch_trouble(self) -> str | None:
        """Say that a batch is planned and not committed; ``None`` if there is none. A position that
        is saved before the work does not say when the work is done.
        """
        present = self.present()
        return None if present.planned() == present.committed() else "a batch is not committed yet"

    def saved_positions(self, database: Database) -> dict[int, int]:
        """Return the saved position of each partition, from the checkpoint or the database."""
        found = (
            database.sink.positions() if self._outside else Checkpoint(self.checkpoint).committed()
        )
        return self._scene.every_partition(found)


@dataclass
class FilledTopic:
    """Fills the source before the query reads, wholly or up to the target. Implements
    :class:`harness.run.parts.Feed`.

    ``saved``: returns the query's saved positions.
    """

    scene: Scene
    producing: Producing
    query: Query
    saved: Callable[[], Mapping[int, int]]

    def start(self) -> None:
        """Start the producer."""
        self.producing.start()

    def await_filled(self) -> None:
        """Wait until the producer has ended, or waits at the fault's trigger."""
        wait_until(
            self.producing.node.stopped_itself, within_s=FILL_S, because="the topic to be filled"
        )
        self.query.last = self.scene.observer.visible(self.scene.source, {})

    def exhausted(self) -> bool:
        """Say whether the query has read the whole source, or, if the source goes on during the
        run, the producer has ended.
        """
        if self.scene.cell.scenario.source_goes_on:
            return self.producing.has_ended()
        saved = self.saved()
        return all(saved[partition] > offset for partition, offset in self.query.last.items())


@dataclass
class SparkNodes:
    """Finds the nodes of a cell on Spark. A failpoint only holds the program, which has several
    processes; the fault acts.
    """

    scene: Scene
    kafka: CellNodes

    def target(self, role: Role, node: str | None = None) -> Target:
        """Return the node of a role, as Kafka's cells do."""
        return self.kafka.target(role, node)

    def rule(self, trigger: OnWire, rule: Rule) -> Rule:
        """Return the rule, as Kafka's cells do."""
        return self.kafka.rule(trigger, rule)

    def selector(self, fired: Fired) -> str | None:
        """Return the prefix of the client ids of the node's process."""
        return self.kafka.selector(fired)

    def hit(self, trigger: OnWire, hit: kinds.Rule) -> str:
        """Return the name of the node that hit a rule, from its client id."""
        return self.kafka.hit(trigger, hit)

    def standing(self, trigger: InProgram | AtWrite) -> Fired | None:
        """Return the stage that waits at its failpoint; ``None`` before that."""
        return self.kafka.standing(trigger)

    def arm(self, trigger: InProgram, stop: Stop) -> tuple[str, Mapping[str, object]]:
        """Return how the failpoint is armed: it holds the program at the target's
        place in the log.
        """
        del stop  # the fault itself then acts on the JVM
        place = None if trigger.role is Role.PRODUCER else self._place(self.scene.load.target)
        return "hold", {"place": place}

    def _place(self, record: Record) -> tuple[int, int]:
        copies = self.scene.observer.copies(self.scene.source)
        found = [
            (c.partition, c.offset)
            for c in copies
            if c.visible and c.value and decode_id(c.value) == record.id
        ]
        if len(found) != 1:
            raise RuntimeError(
                f"{record.id} is {len(found)} times in {self.scene.source} before the query "
                "starts, not once"
            )
        return found[0]
