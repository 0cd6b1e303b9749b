"""The abilities of a cell on Kafka Connect: another worker takes over the task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.abilities import Membership
from harness.model import events as kinds
from harness.model.events import NodePhase
from harness.model.waiting import wait_until

if TYPE_CHECKING:
    from harness.controls import Target
    from harness.model.scenario import Role
    from harness.systems.kafka.scene import Scene
    from lostack_connect.workers import Workers

WITHIN_S: Final = 60.0
GONE: Final = frozenset({NodePhase.PAUSED, NodePhase.EXITED})


@dataclass
class TakenOverByWorker(Membership):
    """Watches the cluster of workers of a cell."""

    scene: Scene
    workers: Workers

    def await_expired(self, role: Role) -> None:
        """Wait until another worker has started the task of the one that was paused or killed
        last.
        """
        gone = [e for e in self.scene.so_far.of(kinds.Node) if e.role == role and e.phase in GONE][
            -1
        ]
        wait_until(
            lambda: self.workers.at_work(gone.t, but=str(gone.node)),
            within_s=WITHIN_S,
            because=f"another worker to take over from {gone.node}",
            poll_s=0.05,
        )

    def await_put_out(self, node: Target) -> None:
        """Raise NotImplementedError: a worker learns of it in its group, which the wire does not
        see.
        """
        raise NotImplementedError(f"nobody sees when {node.name} is told that it was put out")
