"""The abilities of a cell on Spark: lose the checkpoint, expire the source, replace the driver."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.abilities import Checkpoint as CheckpointAbility
from harness.abilities import Retention, Succession
from harness.model import events as kinds
from harness.model.events import FaultPhase
from harness.model.places import Removal, log_fields
from harness.model.record import decode_id
from harness.model.waiting import wait_until
from harness.stages.sinks.checkpoint import Checkpoint
from harness.systems.kafka.abilities import say_forgot
from harness.systems.spark.driver import DriverNode

if TYPE_CHECKING:
    from harness.controls import Target
    from harness.model.scenario import Role
    from harness.systems.kafka.scene import Scene
    from harness.systems.spark.query import Query

ZOMBIE_S = 60.0


@dataclass
class QueryCheckpoint(CheckpointAbility):
    """Deletes the checkpoint of the cell's query."""

    scene: Scene
    query: Query

    def lose(self) -> None:
        """Delete the checkpoint, and write down its size."""
        folder = self.query.checkpoint
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        shutil.rmtree(folder)
        say_forgot(
            self.scene,
            kinds.Fault(
                phase=FaultPhase.FORGOT, file=folder.name, bytes_before=size, bytes_after=0
            ),
        )


@dataclass
class SourceRetention(Retention):
    """Deletes records of the source as retention would."""

    scene: Scene
    query: Query

    def expire(self) -> None:
        """Delete the records of the present batch and all before it, and write them down."""
        topic, before = self.scene.source, self.query.present().planned()
        gone = [
            copy
            for copy in self.scene.observer.copies(topic)
            if copy.offset < before.get(copy.partition, 0)
        ]
        for copy in gone:
            self.scene.history.write(
                kinds.Removed(
                    why=Removal.RETENTION,
                    topic=topic,
                    record=decode_id(copy.value),
                    visible=copy.visible,
                    **log_fields(copy.partition, copy.epoch, copy.offset),
                )
            )
        self.scene.observer.delete(topic, before)
        say_forgot(self.scene, kinds.Fault(phase=FaultPhase.FORGOT, file=topic, records=len(gone)))


@dataclass
class NextDriver(Succession):
    """Starts a second driver on the same checkpoint."""

    query: Query

    def stand_in(self, role: Role) -> None:
        """Start a second driver, and wait until its query runs.

        Raises:
            TypeError: the role is not the driver.
        """
        if role is not self.query.driver.role:
            raise TypeError(f"only a driver can be replaced, not a {role}")
        second = self.query.replace_driver()
        second.start()
        second.await_ready()

    def await_zombie(self, node: Target) -> None:
        """Wait until the replaced driver has gone on, and has done all its work or has ended.

        Raises:
            TypeError: the node is not a driver.
        """
        if not isinstance(node, DriverNode):
            raise TypeError(f"{node.name} was not replaced")
        before = node.moves()
        wait_until(
            lambda: node.moves() > before or node.trouble(),
            within_s=ZOMBIE_S,
            because="the zombie to go on",
        )
        alone = Checkpoint(self.query.checkpoint / node.stage.writer)
        last = self.query.last

        def done() -> object:
            reached = (
                alone.committed()
            )  # only with a checkpoint of its own; on a shared one it dies
            return node.trouble() or (
                reached and all(reached[p] > offset for p, offset in last.items())
            )

        wait_until(done, within_s=ZOMBIE_S, because="the zombie to be done", poll_s=0.05)
