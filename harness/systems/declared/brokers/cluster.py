"""Several brokers that lostack starts for declared pipelines. The first one coordinates groups and
transactions, and the others lead the pipeline's topics, when a cell begins.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from harness.model.waiting import wait_until
from harness.systems.declared.brokers.kafka import OwnBrokers, create
from harness.systems.kafka.broker import INTER_BROKER, INTERNAL_TOPICS
from harness.systems.kafka.cluster import SYNC_S, answered, await_in_sync, leaderships

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from harness.controls import Target
    from harness.model.history import HistoryWriter
    from harness.model.scenario import Role
    from harness.pipelines.broker import TopicSettings
    from harness.systems.kafka.broker import Broker

LEAST = "min.insync.replicas"
ENOUGH = 2
"""The default ``min.insync.replicas`` of a topic with at least this many replicas."""


class OwnCluster(OwnBrokers):
    """Implements :class:`harness.systems.declared.brokers.kafka.KafkaBrokers`."""

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """The brokers, in the order of their numbers."""
        return self._transport.brokers

    @property
    def direct(self) -> str:
        """The brokers' own addresses, without the wire."""
        return ",".join(broker.bootstrap for broker in self.brokers)

    @property
    def between(self) -> tuple[str, ...]:
        """The names of the wire's routes from broker to broker."""
        return self.routes(INTER_BROKER)

    def servers(self, history: HistoryWriter) -> Mapping[Role, Callable[[], Target]]:
        """Return nothing: which broker is meant depends on the frame."""
        del history
        return {}

    def create(self, topics: Mapping[str, int], settings: TopicSettings, copies: int) -> None:
        """Create topics: name → partitions. Another broker than the first leads each partition."""
        least = {LEAST: str(min(ENOUGH, copies)), **settings.each}
        _, *others = [broker.number for broker in self.brokers]

        def placed(partition: int) -> list[int]:
            first = others[partition % len(others)]
            return [first, *(number for number in (*others, 1) if number != first)][:copies]

        create(self.observer, topics, replace(settings, each=least), placement=placed)
        await_in_sync(self._transport, topics)

    def clean(self, topics: Iterable[str]) -> None:
        """Start the brokers again that an earlier cell has left dead, let the first one coordinate,
        and delete what an earlier cell left.
        """
        for broker in self.brokers:
            if broker.process().exit is not None:
                broker.start()
        await_in_sync(self._transport, INTERNAL_TOPICS)
        if not self._home():
            wait_until(
                self._home, within_s=SYNC_S, because="the first broker to coordinate", poll_s=0.1
            )
            self.observer.close()  # it may know another coordinator
        super().clean(topics)

    def _home(self) -> bool:
        """Whether the first broker leads Kafka's internal topics; if not, ask that it does."""
        observer, size = self.observer, len(self.brokers)
        led = True
        for topic in INTERNAL_TOPICS:
            for partition, now in leaderships(self._transport, topic).items():
                if now.leader == 1:
                    continue
                led = False
                if now.replicas[0] != 1:
                    observer.reorder_replicas(topic, {partition: range(1, size + 1)})
        if not led:
            answered(lambda: observer.prefer_leaders(INTERNAL_TOPICS))
        return led
