"""What earlier cells left on a queue broker: a lane's broker serves one cell after the other, and
its journal holds all that it ever held.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.model.places import Waiting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.run.queue_broker import Count, Message, QueueBroker


class Leftovers:
    """The copies in queues that are older than a cell."""

    def __init__(self) -> None:
        self._places: dict[str, frozenset[str]] = {}

    def note(self, broker: QueueBroker, *queues: str) -> None:
        """Note which copies queues have had before the cell begins."""
        for queue in queues:
            held = broker.messages(queue)
            self._places[queue] = frozenset(message.place for message in held)

    def messages(self, broker: QueueBroker, queue: str) -> Sequence[Message]:
        """Return every copy that a queue has had in this cell."""
        return self._split(broker, queue)[0]

    def count(self, broker: QueueBroker, queue: str) -> Count:
        """Return how many messages of this cell wait in a queue, as the broker itself says."""
        count = broker.count(queue)
        if not self._places.get(queue):
            return count
        older: Counter[Waiting | None] = Counter()
        for message in self._split(broker, queue)[1]:
            older[message.waiting] += message.counts
        # nobody but the broker knows which of these two it calls a message that a consumer had
        waits = older[Waiting.READY] + older[Waiting.IN_FLIGHT]
        ready = max(count.ready - waits, 0)
        return replace(
            count,
            ready=ready,
            in_flight=count.in_flight - (waits - (count.ready - ready)),
            scheduled=count.scheduled - older[Waiting.SCHEDULED],
        )

    def _split(self, broker: QueueBroker, queue: str) -> tuple[list[Message], list[Message]]:
        """Return the copies of this cell, and the older ones."""
        places = self._places.get(queue, frozenset())
        found: tuple[list[Message], list[Message]] = [], []
        for message in broker.messages(queue):
            found[message.place in places].append(message)
        return found
