"""Requests about groups of any protocol, most of which kafka-python's admin client lacks: members,
who is put out of a group, and unread offsets.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kafka.admin import MemberToRemove
from kafka.errors import GroupIdNotFoundError, UnknownMemberIdError, for_code
from kafka.protocol.admin import DescribeGroupsRequest

from harness.protocols.kafka import messages
from harness.stages.consumer_settings import GroupProtocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafka.admin import KafkaAdminClient
    from kafka.protocol.api_message import ApiMessage
    from kafka.protocol.data_container import DataContainer

_DESCRIBE = {
    GroupProtocol.CONSUMER: messages.ConsumerGroupDescribeRequest,
    GroupProtocol.SHARE: messages.ShareGroupDescribeRequest,
    GroupProtocol.STREAMS: messages.StreamsGroupDescribeRequest,
}
_LEAVE = {
    GroupProtocol.CONSUMER: messages.ConsumerGroupHeartbeatRequest,
    GroupProtocol.SHARE: messages.ShareGroupHeartbeatRequest,
    GroupProtocol.STREAMS: messages.StreamsGroupHeartbeatRequest,
}
LEAVES = -1
"""The member epoch of a heartbeat with which a member leaves its group, also a static member."""
WITHOUT_MEMBERS = frozenset({"Empty", "Dead"})
"""The states of a group that has no members."""
WITH_MEMBERS = frozenset(
    {
        "Stable",
        "PreparingRebalance",
        "CompletingRebalance",
        "Assigning",
        "Reconciling",
        "NotReady",
    }
)
"""The states of a group that has members, of any protocol."""


def groups_of(admin: KafkaAdminClient) -> dict[str, tuple[GroupProtocol, bool]]:
    """Return the protocol of every group of a cluster, and whether it has members.

    Only brokers since 4.0 name a group's protocol; the groups of older ones are classic. Brokers
    before 2.6 do not say in their list whether a group has members, and newer ones may tell a state
    that is not known here: they are asked for the members.
    """
    found = {}
    for each in admin.list_groups():
        group, state = each["group_id"], each.get("group_state")
        protocol = _PROTOCOLS.get(str(each.get("group_type")).lower(), GroupProtocol.CLASSIC)
        clear = state in WITH_MEMBERS or state in WITHOUT_MEMBERS
        peopled = state in WITH_MEMBERS if clear else bool(members_of(admin, group, protocol))
        found[group] = protocol, peopled
    return found


_PROTOCOLS = {str(each): each for each in GroupProtocol}


def protocol_of(admin: KafkaAdminClient, group: str) -> GroupProtocol:
    """Return the protocol of a group; classic if there is no such group."""
    return groups_of(admin).get(group, (GroupProtocol.CLASSIC, False))[0]


def expel(admin: KafkaAdminClient, group: str, only: Collection[str] | None = None) -> int:
    """Remove every member from a group, or ``only`` these; return how many were removed.

    An administrator can remove members of a classic group. The other protocols have no such
    request, so each member's own request to leave is sent in its name.
    """
    protocol = protocol_of(admin, group)
    members = [
        member for member in members_of(admin, group, protocol) if only is None or member in only
    ]
    if members and protocol is GroupProtocol.CLASSIC:
        admin.remove_group_members(group, [MemberToRemove(member_id=member) for member in members])
    elif members:
        for member in members:
            _leave(admin, group, member, protocol)
    return len(members)


def _leave(admin: KafkaAdminClient, group: str, member: str, protocol: GroupProtocol) -> None:
    request = _LEAVE[protocol](group_id=group, member_id=member, member_epoch=LEAVES)
    with suppress(UnknownMemberIdError, GroupIdNotFoundError):  # it has gone by itself meanwhile
        _raise(_ask(admin, group, request))


def members_of(admin: KafkaAdminClient, group: str, protocol: GroupProtocol) -> dict[str, str]:
    """Return the members of a group: member id → client id; nothing if there is no such group."""
    try:
        if protocol is GroupProtocol.CLASSIC:
            with suppress(ValueError):  # it cannot read what members of other programs say: Connect
                return {
                    one["member_id"]: one["client_id"]
                    for one in admin.describe_groups([group])[group]["members"]
                }
            request = DescribeGroupsRequest(groups=[group], include_authorized_operations=False)
        else:
            request = _DESCRIBE[protocol](group_ids=[group], include_authorized_operations=False)
        [told] = _ask(admin, group, request).groups
        _raise(told)
    except GroupIdNotFoundError:
        return {}
    return {one.member_id: one.client_id for one in told.members}


def left_to(admin: KafkaAdminClient, group: str, topic: str) -> Mapping[int, int]:
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


def _ask(admin: KafkaAdminClient, group: str, request: ApiMessage) -> ApiMessage:
    """Send a request to the coordinator of a group, and return the answer."""

    async def asked() -> ApiMessage:
        node = await admin._find_coordinator_id(group)  # noqa: SLF001 - there is no other way to a request of one's own
        return await admin._manager.send(request, node_id=node)  # noqa: SLF001 - see above

    return admin._manager.run(asked)  # noqa: SLF001 - see above


def _raise(told: DataContainer) -> None:
    if told.error_code:
        raise for_code(told.error_code)(told.error_message)
