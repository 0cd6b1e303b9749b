"""Aim at one record of a declared cell after the other."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from harness.controls import await_met, role_of
from harness.model.turns import NextTarget
from harness.run.controls import FIRE_S

if TYPE_CHECKING:
    from harness.run.controls import WireControls
    from harness.systems.declared.feed.feed import DeclaredFeed
    from harness.systems.declared.scene import Scene

REST_S: Final = 0.5
"""How long (seconds) nothing must be seen of a record before the next one is aimed at."""


@dataclass
class TargetsInTurn(NextTarget):
    """The targets of a cell. Implements :class:`harness.model.turns.NextTarget`."""

    scene: Scene
    controls: WireControls
    feed: DeclaredFeed

    def await_rest(self) -> None:
        """Wait until the feed has offered what it may, the readers have passed it, and nothing has
        moved for REST_S; where the producer is struck, for twice the dry run's longest silence.

        Raises:
            NotFiredError: that never was.
        """
        watching = self.controls.watching
        await_met(
            self._rests,
            max(FIRE_S, watching.fire_s),
            f"rest behind {self.scene.load.target.id}",
            advance=watching.advance,
            poll_s=0.05,
        )

    def aim(self, number: int) -> str:
        """Make another record the target."""
        load = self.scene.load
        if number:
            self.controls.disarm()
        self.scene.load = replace(load, target=load.targets[number])
        return self.scene.load.target.id

    def go_on(self) -> None:
        """Let the feed offer the records up to those behind the target."""
        self.feed.go_on()

    def _rests(self) -> bool:
        scene, watching = self.scene, self.controls.watching
        role = role_of(scene.cell.scenario.fault)
        # nobody knows when a producer that was killed has sent again what it is given again
        rest_s = REST_S if scene.pipeline.reads(role) else scene.still(REST_S)
        watching.look()
        watching.supervise()
        return (
            self.feed.waits
            and time.monotonic() - scene.records_seen.last / 1e9 > rest_s
            and watching.is_settled()
        )
