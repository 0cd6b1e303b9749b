"""Record locks of a share group: how long a record is reserved for one reader."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.abilities import RecordLocks
from harness.model.waiting import wait_until
from harness.protocols.kafka.steps import Api
from harness.systems.kafka.abilities import WITHIN_S, requests_since, stage_of

if TYPE_CHECKING:
    from harness.controls import Target
    from harness.systems.kafka.scene import Scene


@dataclass
class ReaderLocks(RecordLocks):
    """Waits for the locks of a cell's share group."""

    scene: Scene
    _over_ns: int = 0
    """When the lock was over (monotonic ns)."""

    def await_expired(self) -> None:
        """Wait for the duration of a lock, which began before the fault fired."""
        lock_s = self.scene.settings.consumer.share.lock_ms / 1000
        over = time.monotonic() + lock_s
        wait_until(
            lambda: time.monotonic() >= over,
            within_s=lock_s + WITHIN_S,
            because="a lock to be over",
            poll_s=0.05,
        )
        self._over_ns = time.monotonic_ns()

    def await_gone_on(self, node: Target) -> None:
        """Wait until the node has asked for more records after its lock was over."""
        client, since = stage_of(node, "has no locks").stage.client_id, self._over_ns
        found = requests_since(self.scene.so_far, Api.SHARE_FETCH, client, since=since)
        wait_until(
            found, within_s=WITHIN_S, because=f"{node.name} to ask for more records", poll_s=0.05
        )
