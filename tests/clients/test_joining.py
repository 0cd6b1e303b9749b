"""How often our consumer joins its group: once, on a real broker."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaConsumer

from harness.model.waiting import wait_until
from harness.stages.clients.kafka_python import Consumer
from harness.stages.consuming import POLL_S

if TYPE_CHECKING:
    from harness.systems.kafka.transport import KafkaTransport

pytestmark = [pytest.mark.kafka, pytest.mark.rest, pytest.mark.timeout(300)]
GROUPS = 5


def test_a_consumer_of_kafka_python_joins_its_group_once(kafka: KafkaTransport) -> None:
    """Each generation of a group is a gathering of it; the client's own second one may leave it
    silent (3.0.12).
    """
    kafka.observer.create_topics({"in": (3, {})})
    assert [generation(kafka.broker.bootstrap, f"group-{number}") for number in range(GROUPS)] == [
        1
    ] * GROUPS


def generation(bootstrap: str, group: str) -> int:
    """Return the group's generation when its only member has read for a while."""
    given: list[int] = []
    consumer = Consumer(
        partial(
            KafkaConsumer, bootstrap_servers=bootstrap, group_id=group, heartbeat_interval_ms=100
        )
    )

    def assigned(partitions: list[int]) -> dict[int, int]:
        given.extend(partitions)
        return {}

    consumer.subscribe("in", assigned)
    wait_until(
        lambda: consumer.poll(1, POLL_S) or given,
        within_s=30,
        because="the member to be given partitions",
    )
    consumer.poll(1, POLL_S)
    found = int(consumer.membership().token.generation_id)
    consumer._consumer.close(autocommit=False)
    return found
