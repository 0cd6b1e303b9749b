"""The instances of a Kafka Streams application: make, start and stop them."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from harness.abilities import Supervision, needs_of
from harness.model.scenario import Role
from harness.run.stages import Reading
from harness.run.who import CellNodes
from harness.systems.streams.node import InstanceNode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.controls import InProgram, Stop
    from harness.systems.kafka.scene import Scene
    from harness.systems.kafka.stages import StageMaker
    from harness.systems.streams.install import StreamsInstall


class Instances:
    """The instances of one cell. Implements :class:`harness.run.parts.Stages`; opened and closed
    with the cell.
    """

    def __init__(self, scene: Scene, maker: StageMaker, install: StreamsInstall) -> None:
        def make(role: Role, name: str) -> InstanceNode:
            stage = maker.make(role, name)
            own = {each.name: getattr(stage, each.name) for each in fields(stage) if each.init}
            return InstanceNode(**own, install=install)

        fault = scene.cell.scenario.fault
        ends = (*fault.evidence().killed, *fault.evidence().told)
        self._ends = ends.count(Role.PROCESSOR) + (Supervision in needs_of(fault))
        self.reading = Reading(make, Role.PROCESSOR, scene.settings.consumer.count)

    @property
    def nodes(self) -> tuple[InstanceNode, ...]:
        """The nodes of the instances."""
        return tuple(node for node in self.reading.nodes if isinstance(node, InstanceNode))

    def open(self) -> None:
        """Do nothing: the run calls :meth:`start`."""

    def start(self) -> None:
        """Start the instances, and wait until they work. If the fault ends the only instance, also
        start a standby.
        """
        self.reading.start()
        for node in self.nodes:
            node.successors = self._ends
            if self._ends and len(self.nodes) == 1:
                node.stand_by()

    def stand_by(self) -> None:
        """Do nothing: :meth:`start` starts the instances."""

    def close(self) -> None:
        """Stop the instances and the standbys."""
        with ExitStack() as ends:
            for node in self.nodes:
                node.successors = 0
                ends.callback(node.dismiss)
            ends.callback(self.reading.close)


@dataclass
class InstanceNodes(CellNodes):
    """Finds the nodes of a cell. A failpoint holds the instance's thread, and the
    fault then acts.
    """

    def arm(self, trigger: InProgram, stop: Stop) -> tuple[str, Mapping[str, object]]:
        """Return how a failpoint is armed: it holds an instance; the producer stops itself."""
        return ("hold", {}) if trigger.role == Role.PROCESSOR else super().arm(trigger, stop)
