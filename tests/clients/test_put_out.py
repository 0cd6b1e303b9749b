"""Members that have died are put out of their group, by any protocol, on a real broker."""

from __future__ import annotations

import signal
import subprocess
import sys
import uuid
from typing import TYPE_CHECKING, Any, Final

import pytest

from harness.model.waiting import wait_until
from harness.protocols.kafka import messages
from harness.stages.consumer_settings import GroupProtocol
from harness.systems.kafka.new_groups import _ask

if TYPE_CHECKING:
    from harness.systems.kafka.transport import KafkaTransport

pytestmark = [pytest.mark.kafka, pytest.mark.rest, pytest.mark.timeout(300)]
READER: Final = """
import sys
from confluent_kafka import Consumer
reader = Consumer({
    "bootstrap.servers": sys.argv[1],
    "group.id": sys.argv[2],
    "group.protocol": "consumer",
    "auto.offset.reset": "earliest",
})
reader.subscribe(["in"])
while True:
    reader.poll(0.1)
"""
"""A consumer of the new protocol, which polls for ever."""
_TOPOLOGY = messages.StreamsGroupHeartbeatRequest.Topology
_JOIN: dict[GroupProtocol, Any] = {
    GroupProtocol.CONSUMER: lambda **who: messages.ConsumerGroupHeartbeatRequest(
        **who, rebalance_timeout_ms=60_000, subscribed_topic_names=["in"], topic_partitions=[]
    ),
    GroupProtocol.SHARE: lambda **who: messages.ShareGroupHeartbeatRequest(
        **who, subscribed_topic_names=["in"]
    ),
    GroupProtocol.STREAMS: lambda **who: messages.StreamsGroupHeartbeatRequest(
        **who,
        rebalance_timeout_ms=60_000,
        process_id="p",
        client_tags=[],
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        topology=_TOPOLOGY(
            epoch=0,
            subtopologies=[
                _TOPOLOGY.Subtopology(
                    subtopology_id="0",
                    source_topics=["in"],
                    source_topic_regex=[],
                    state_changelog_topics=[],
                    repartition_sink_topics=[],
                    repartition_source_topics=[],
                    copartition_groups=[],
                )
            ],
        ),
    ),
}


def test_a_member_that_never_speaks_again_is_put_out_at_once(kafka: KafkaTransport) -> None:
    """It joined, and died: its session would last 45 s, and its partitions rest that long."""
    observer = kafka.observer
    observer.create_topics({"in": (3, {})})
    observer.save_positions("first", "in", {0: 0})  # waits until there is a coordinator
    for protocol, join in _JOIN.items():
        group, member = f"of-{protocol}", str(uuid.uuid4())
        request = join(group_id=group, member_id=member, member_epoch=0)
        answer = _ask(observer._admin_client(), group, request)
        assert (answer.error_code, answer.error_message) == (0, None)
        assert (
            observer.members(group).keys() == observer.members(group, protocol).keys() == {member}
        )
        assert group in observer.peopled()
        assert observer.expel(group) == 1
        assert observer.members(group) == {}
        assert group not in observer.peopled()
        assert observer.expel(group) == 0
        observer.forget((), [group])
        assert group not in observer.groups()


def test_a_consumer_that_was_killed_is_put_out_at_once(kafka: KafkaTransport) -> None:
    """It says no goodbye, so the broker believes that it lives until its session ends (45 s)."""
    observer = kafka.observer
    observer.create_topics({"in": (3, {})})
    observer.save_positions("first", "in", {0: 0})  # waits until there is a coordinator
    reader = subprocess.Popen([sys.executable, "-c", READER, kafka.direct, "readers"])
    try:
        wait_until(lambda: observer.members("readers"), within_s=60, because="the consumer to join")
    finally:
        reader.kill()
    assert reader.wait(30) == -signal.SIGKILL
    [member] = observer.members("readers")
    assert "readers" in observer.peopled()
    assert observer.expel("readers") == 1
    assert member not in observer.members("readers", GroupProtocol.CONSUMER)
    assert "readers" not in observer.peopled()
