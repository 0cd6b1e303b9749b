"""Requests about groups of the new protocols that kafka-python's admin client lacks: members, and
unread offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.errors import GroupIdNotFoundError, for_code

from harness.protocols.kafka import messages
from harness.stages.settings import GroupProtocol

if TYPE_CHECKING:
    from collections.abc import Mapping

_DESCRIBE = {
    GroupProtocol.CONSUMER: messages.ConsumerGroupDescribeRequest,
    GroupProtocol.SHARE: messages.ShareGroupDescribeRequest,
    GroupProtocol.STREAMS: messages.StreamsGroupDescribeRequest,
}


def members_of(admin: Any, group: str, protocol: GroupProtocol) -> dict[str, str]:
    """Return the members of a group: member id → client id; nothing if there is no such group."""
    try:
        if protocol is GroupProtocol.CLASSIC:
            return {
                one["member_id"]: one["client_id"]
                for one in admin.describe_groups([group])[group]["members"]
            }
        request = _DESCRIBE[protocol](group_ids=[group], include_authorized_operations=False)
        [told] = _ask(admin, group, request).groups
        _raise(told)
    except GroupIdNotFoundError:
        return {}
    return {one.member_id: one.client_id for one in told.members}


def left_to(admin: Any, group: str, topic: str) -> Mapping[int, int]:
    """Return how many offsets of each partition a share group has not finished, by the broker's own
    count.

    A partition is missing if the group has not begun it, or if the broker does not know its count.
    """
    topics = messages.DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
    request = messages.DescribeShareGroupOffsetsRequest(
        groups=[topics(group_id=group, topics=None)]
    )
    [told] = _ask(admin, group, request).groups
    try:
        _raise(told)
    except GroupIdNotFoundError:
        return {}
    parts = [part for each in told.topics if each.topic_name == topic for part in each.partitions]
    for part in parts:
        _raise(part)
    return {
        part.partition_index: part.lag for part in parts if part.start_offset >= 0 and part.lag >= 0
    }


def _ask(admin: Any, group: str, request: Any) -> Any:
    """Send a request to the coordinator of a group, and return the answer."""

    async def asked() -> Any:
        node = await admin._find_coordinator_id(group)  # noqa: SLF001 - there is no other way to a request of one's own
        return await admin._manager.send(request, node_id=node)  # noqa: SLF001 - see above

    return admin._manager.run(asked)  # noqa: SLF001 - see above


def _raise(told: Any) -> None:
    if told.error_code:
        raise for_code(told.error_code)(told.error_message)
