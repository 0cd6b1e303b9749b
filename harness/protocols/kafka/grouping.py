"""Decode the frames of classic consumer groups: who joins and leaves, and which partitions a member
is assigned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolType,
)

from harness.protocols.kafka.steps import Api
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafka.protocol.api_message import ApiMessage
    from kafka.protocol.data_container import DataContainer

NEW_IDS: Final = 3
"""From this version of LeaveGroup on several members may leave at once."""
Partitions: TypeAlias = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class InGroup:
    """A request of a member of a classic group."""

    group: str
    member: str
    generation: int | None = None
    leaves: bool = False
    owned: Partitions | None = None
    """Of a JoinGroup: the partitions that the member has not given up."""
    instance: str | None = None
    """Of a JoinGroup: the name that a static member keeps from one life to the next."""
    poll_ms: int | None = None
    """Of a JoinGroup: how long a rebalance may wait for the member."""


@dataclass(frozen=True, slots=True)
class InGroupAnswer:
    """The answer: its error; of a JoinGroup the member's id and generation and the group's
    assignor, of a SyncGroup its partitions.
    """

    error: int
    member: str = ""
    generation: int | None = None
    assigned: Partitions | None = None
    assignor: str | None = None


Content: TypeAlias = InGroup | InGroupAnswer


def _read_member(message: ApiMessage, _version: int) -> InGroup:
    generation = getattr(message, "generation_id", None)
    return InGroup(message.group_id, message.member_id or "", generation)


def _read_joining(message: ApiMessage, _version: int) -> InGroup:
    """Read who joins. An eager member has given up all its partitions before it asks."""
    protocol = next(iter(message.protocols), None)
    instance = getattr(message, "group_instance_id", None)
    poll_ms = getattr(message, "rebalance_timeout_ms", None)
    if message.protocol_type != ConsumerProtocolType or protocol is None:
        return InGroup(
            message.group_id, message.member_id or "", instance=instance, poll_ms=poll_ms
        )
    told = ConsumerProtocolSubscription.decode(protocol.metadata)
    return InGroup(
        message.group_id,
        message.member_id or "",
        owned=_partitions(told.owned_partitions or ()),
        instance=instance,
        poll_ms=poll_ms,
    )


def _partitions(topics: Iterable[DataContainer]) -> Partitions:
    return tuple((each.topic, partition) for each in topics for partition in each.partitions)


def _read_leaving(message: ApiMessage, version: int) -> InGroup:
    member = message.member_id if version < NEW_IDS else message.members[0].member_id
    return InGroup(message.group_id, member or "", leaves=True)


def _read_answer(message: ApiMessage, _version: int) -> InGroupAnswer:
    return InGroupAnswer(message.error_code)


def _read_joined(message: ApiMessage, _version: int) -> InGroupAnswer:
    return InGroupAnswer(
        message.error_code,
        message.member_id or "",
        message.generation_id,
        assignor=message.protocol_name or None,
    )


def _read_assigned(message: ApiMessage, version: int) -> InGroupAnswer:
    """Read the partitions. Groups of other programs than consumers, such as Connect's, assign what
    only they can read.
    """
    other = version >= NAMES_PROTOCOL and message.protocol_type not in (None, ConsumerProtocolType)
    if message.error_code or other or not message.assignment:
        return InGroupAnswer(message.error_code, assigned=None if other else ())
    found = ConsumerProtocolAssignment.decode(message.assignment)
    return InGroupAnswer(0, assigned=_partitions(found.assigned_partitions))


NAMES_PROTOCOL: Final = 5
"""From this version of SyncGroup on its answer names the group's protocol."""
_REQ, _RES = Direction.REQUEST, Direction.RESPONSE
READERS: Final[
    dict[tuple[str, Direction], tuple[type[ApiMessage], Callable[[ApiMessage, int], Content]]]
] = {
    (Api.JOIN_GROUP, _REQ): (JoinGroupRequest, _read_joining),
    (Api.JOIN_GROUP, _RES): (JoinGroupResponse, _read_joined),
    (Api.SYNC_GROUP, _REQ): (SyncGroupRequest, _read_member),
    (Api.SYNC_GROUP, _RES): (SyncGroupResponse, _read_assigned),
    (Api.HEARTBEAT, _REQ): (HeartbeatRequest, _read_member),
    (Api.HEARTBEAT, _RES): (HeartbeatResponse, _read_answer),
    (Api.LEAVE_GROUP, _REQ): (LeaveGroupRequest, _read_leaving),
    (Api.LEAVE_GROUP, _RES): (LeaveGroupResponse, _read_answer),
}
