"""What the wire has seen of topics: which there are, and how far they were read."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from harness.model import events as kinds
from harness.protocols.kafka.codec import is_unresolved
from harness.systems.declared.wire.seen import SeenOnWire

if TYPE_CHECKING:
    from harness.model.history import Event
    from harness.model.tail import SoFar

KAFKAS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"}
)
"""Kafka's own topics. They are nobody's."""
HIDDEN: Final = "__"
"""How topics begin in which programs speak to themselves. Such a topic is one of the pipeline when
a record of the load was seen in it.
"""


class TopicsOnWire(SeenOnWire):
    """The topics in which records were seen, and what any reader of them was given."""

    def __init__(self, so_far: SoFar) -> None:
        super().__init__(so_far)
        self._topics: set[str] = set()
        self._given: set[str] = set()
        self._reached: dict[str, dict[int, int]] = defaultdict(dict)
        self._arrived: dict[str, int] = {}

    def with_records(self) -> set[str]:
        """Return the topics in which records were seen, declared or not."""
        with self._up_to_date():
            return set(self._topics)

    def read(self) -> set[str]:
        """Return the topics with records that a stage reads."""
        with self._up_to_date():
            return set(self._given)

    def reached(self, topic: str) -> dict[int, int]:
        """Return the highest offset that any reader of a topic was given, for each partition with
        such an offset.
        """
        with self._up_to_date():
            return dict(self._reached[topic])

    def given(self, topic: str) -> int:
        """Return when any reader of a topic was last given a record (monotonic ns); 0: never."""
        with self._up_to_date():
            return self._arrived.get(topic, 0)

    def forget(self, topic: str) -> None:
        """Forget how far a topic was read: it was deleted, and made anew."""
        with self._up_to_date():
            self._reached.pop(topic, None)
            self._arrived.pop(topic, None)

    def _take(self, event: Event) -> None:
        match event:
            case kinds.Sent() | kinds.Unsent():
                self._see(event.topic)
            case kinds.Fetched(topic=str() as topic):
                self._take_fetched(event, topic)
            case kinds.Committed():
                if not str(event.topic).startswith(HIDDEN):
                    self._see(event.topic)
                if event.topic in self._topics:
                    self._given.add(event.topic)

    def _take_fetched(self, event: kinds.Fetched, topic: str) -> None:
        self._see(topic)
        self._given.add(topic)
        if not event.reached:
            return
        self._arrived[topic] = event.t
        if event.at is not None:
            partition, offset = event.at
            self._reached[topic][partition] = max(offset, self._reached[topic].get(partition, -1))

    def _see(self, topic: str | None) -> None:
        if topic is not None and topic not in KAFKAS and not is_unresolved(topic):
            self._topics.add(topic)
