"""What a consumer fetches: the partitions of its connection, and what of an answer it will see."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.protocols.kafka import codec
    from harness.protocols.kafka.batches import Batch, Item
    from harness.protocols.kafka.insights import Place


@dataclass(slots=True)
class FetchSession:
    """The partitions that a connection fetches, kept over incremental Fetch requests."""

    positions: dict[Place, int] = field(default_factory=dict)
    read_committed: bool = False
    follower: int = -1

    def ask(self, fetch: codec.Fetch) -> None:
        """Apply a request to the session, when its response has come."""
        if fetch.full:
            self.positions.clear()
        self.read_committed = fetch.read_committed
        self.follower = fetch.follower
        for gone in fetch.forgotten:
            self.positions.pop(gone, None)
        self.positions.update(fetch.positions)


def visible(part: codec.FetchedPartition, *, read_committed: bool) -> Iterator[tuple[Batch, Item]]:
    """Yield what the consumer will see: no control records, and none of aborted transactions if it
    asked for that.
    """
    due = sorted(part.aborted, key=lambda gone: gone[1])
    aborted: set[int] = set()
    for batch in part.batches:
        while due and due[0][1] <= batch.last_offset:
            aborted.add(due.pop(0)[0])
        if batch.control:
            if batch.aborts:
                aborted.discard(batch.producer_id)
            continue
        if read_committed and batch.transactional and batch.producer_id in aborted:
            continue
        for item in batch.items:
            yield batch, item
