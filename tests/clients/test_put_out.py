"""Members that have died are put out of their group, by any protocol, on a real broker."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from harness.protocols.kafka import messages
from harness.stages.settings import GroupProtocol
from harness.systems.kafka.new_groups import _ask

if TYPE_CHECKING:
    from harness.systems.kafka.transport import KafkaTransport

pytestmark = [pytest.mark.kafka, pytest.mark.rest, pytest.mark.timeout(300)]
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
