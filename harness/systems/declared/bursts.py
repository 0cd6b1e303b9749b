"""Let requests of a declared stage overlap, and records gather before their reader."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.model.bursts import Backlog, Overlap
from harness.model.cell import middle_of
from harness.model.struck import hits_of
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.proofs.burst import others_under_way

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.model.scenario import Role
    from harness.systems.declared.programs.targets import FaultTargets
    from harness.systems.declared.scene import Scene

SECOND_S: Final = 3.0
"""How long (seconds) a client may take to send its next request, or longer, where the dry run's
silences were longer; clients wait 30 s for an answer.
"""
GATHERS_S: Final = 20.0
"""How long (seconds) records may take into the topic; or longer, where the dry run's silences were
longer.
"""


@dataclass
class OverlappingRequests(Overlap):
    """Sees which requests of a stage overlap. Implements :class:`harness.model.bursts.Overlap`."""

    scene: Scene
    nodes: FaultTargets

    def await_second(self, role: Role) -> bool:
        """Wait until the stage has sent another request to the target's partition, or has ended."""
        stage = self.nodes.stage(role)
        within_s = self.scene.still(SECOND_S)
        with suppress(WaitTimeoutError):
            wait_until(
                lambda: self._overlaps() or stage.stopped_itself(),
                within_s=within_s,
                because=f"a second request of the {role}",
            )
        return self._overlaps()

    def cut(self, role: Role) -> None:
        """Cut the connections of a stage."""
        self.scene.brokers.wire.cut(role=str(role))

    def _overlaps(self) -> bool:
        so_far = self.scene.so_far
        return any(others_under_way(so_far, hit) for hit in hits_of(so_far)[:1])


@dataclass
class GatheredRecords(Backlog):
    """Lets records gather. Implements :class:`harness.model.bursts.Backlog`.

    ``look``: called while they do.
    """

    scene: Scene
    look: Callable[[], object]

    def await_gathered(self) -> None:
        """Wait until the first two thirds of the load are in the topic. A producer that sends less
        gets what time allows: the proof says how many there were.
        """
        scene = self.scene
        _, end = middle_of(len(scene.load.records))
        observer, topics = scene.kafka.observer, scene.pipeline.between

        def gathered() -> bool:
            self.look()
            ends = (each for topic in topics for each in observer.ends(topic).values())
            return sum(each.end - each.start for each in ends) >= end

        with suppress(WaitTimeoutError):
            wait_until(
                gathered,
                within_s=scene.still(GATHERS_S),
                because=f"{end} records in {' and '.join(topics)}",
                poll_s=0.1,
            )
