"""Decode the frames of the newer group protocols: of share groups (KIP-932), and of members
(KIP-848).

Like :mod:`harness.protocols.kafka.codec`; the definitions are in
:mod:`harness.protocols.kafka.messages`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from harness.protocols.kafka import messages
from harness.protocols.kafka.batches import Batch, read_batches
from harness.protocols.kafka.codec import topic_id_name
from harness.protocols.kafka.inflating import Room
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka.protocol.api_message import ApiMessage

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
"""How an offset is acknowledged; ``GAP``: there is no record for a reader there."""
HOW: Final = {GAP: "gap", ACCEPT: "ack", RELEASE: "release", REJECT: "reject", RENEW: "renew"}
AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
"""The state of an offset, as the share coordinator stores it."""


@dataclass(frozen=True, slots=True)
class Range:
    """A range of offsets of one partition, both ends included. ``said``: the answer for each
    offset, or one for all.
    """

    topic: str
    partition: int
    first: int
    last: int
    said: tuple[int, ...] = ()

    def each(self) -> tuple[tuple[int, int], ...]:
        """Return every offset with its answer."""
        offsets = range(self.first, self.last + 1)
        said = self.said if len(self.said) == len(offsets) else self.said[:1] * len(offsets)
        return tuple(zip(offsets, said, strict=True))


@dataclass(frozen=True, slots=True)
class Acknowledging:
    """A ShareAcknowledge request, or a ShareFetch request, which can acknowledge, too."""

    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class AcknowledgingAnswer:
    """The answer to acknowledgements: the first error, the error of the whole request, and (topic,
    partition, error).
    """

    error: int
    whole: int
    errors: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class Shared:
    """One partition of a ShareFetch response. ``acquired``: the ranges locked for the reader, each
    with its delivery count.
    """

    topic: str
    partition: int
    error: int
    batches: tuple[Batch, ...]
    acquired: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class ShareFetchAnswer:
    """A ShareFetch response: records, and the results of the acknowledgements in its request."""

    error: int
    partitions: tuple[Shared, ...]
    acknowledged: AcknowledgingAnswer


@dataclass(frozen=True, slots=True)
class ShareState:
    """The state of a share group to store: ranges with their state."""

    ranges: tuple[Range, ...] = ()


@dataclass(frozen=True, slots=True)
class StateAnswer:
    """The answer to a ShareState or Described request: the first error."""

    error: int


@dataclass(frozen=True, slots=True)
class Described:
    """A ShareGroupDescribe request."""

    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """A heartbeat of a member. ``epoch``: 0 joins, -1 (for a static one -2) leaves."""

    group: str
    member: str
    epoch: int
    poll_ms: int | None = None
    """Of one that joins: how long it may take to give partitions up."""


@dataclass(frozen=True, slots=True)
class MemberAnswer:
    """The answer to a member's heartbeat: its epoch and, if they have changed, its partitions."""

    error: int
    epoch: int
    assigned: tuple[tuple[str, int], ...] | None
    member: str = ""


Content: TypeAlias = (
    Acknowledging
    | AcknowledgingAnswer
    | ShareFetchAnswer
    | ShareState
    | StateAnswer
    | Described
    | Member
    | MemberAnswer
)


def _ranges(message: ApiMessage) -> tuple[Range, ...]:
    return tuple(
        Range(
            topic_id_name(topic.topic_id),
            part.partition_index,
            batch.first_offset,
            batch.last_offset,
            tuple(batch.acknowledge_types),
        )
        for topic in message.topics
        for part in topic.partitions
        for batch in part.acknowledgement_batches
    )


def _read_acknowledging(message: ApiMessage, _version: int) -> Acknowledging:
    return Acknowledging(_ranges(message))


def _answered(error: int, found: list[tuple[str, int, int]]) -> AcknowledgingAnswer:
    return AcknowledgingAnswer(
        error or next((each for _, _, each in found if each), 0), error, tuple(found)
    )


def _read_acknowledging_answer(message: ApiMessage, _version: int) -> AcknowledgingAnswer:
    return _answered(
        message.error_code,
        [
            (topic_id_name(topic.topic_id), part.partition_index, part.error_code)
            for topic in message.responses
            for part in topic.partitions
        ],
    )


def _read_share_fetch_answer(message: ApiMessage, _version: int) -> ShareFetchAnswer:
    room = Room()
    parts = [
        (topic_id_name(topic.topic_id), part)
        for topic in message.responses
        for part in topic.partitions
    ]
    shared = tuple(
        Shared(
            topic,
            part.partition_index,
            part.error_code,
            read_batches(part.records, room),
            tuple(
                Range(
                    topic,
                    part.partition_index,
                    got.first_offset,
                    got.last_offset,
                    (got.delivery_count,),
                )
                for got in part.acquired_records
            ),
        )
        for topic, part in parts
    )
    told = _answered(
        message.error_code,
        [(topic, part.partition_index, part.acknowledge_error_code) for topic, part in parts],
    )
    return ShareFetchAnswer(message.error_code, shared, told)


def _read_state(message: ApiMessage, _version: int) -> ShareState:
    parts = [
        (topic_id_name(topic.topic_id), part)
        for topic in message.topics
        for part in topic.partitions
    ]
    return ShareState(
        tuple(
            Range(
                topic,
                part.partition,
                batch.first_offset,
                batch.last_offset,
                (batch.delivery_state,),
            )
            for topic, part in parts
            for batch in getattr(part, "state_batches", None) or ()
        ),
    )


def _read_state_answer(message: ApiMessage, _version: int) -> StateAnswer:
    return StateAnswer(
        next(
            (
                part.error_code
                for topic in message.results
                for part in topic.partitions
                if part.error_code
            ),
            0,
        )
    )


def _read_describing(message: ApiMessage, _version: int) -> Described:
    return Described(tuple(message.group_ids))


def _read_described(message: ApiMessage, _version: int) -> StateAnswer:
    return StateAnswer(next((group.error_code for group in message.groups if group.error_code), 0))


def _read_member(message: ApiMessage, _version: int) -> Member:
    poll_ms = getattr(message, "rebalance_timeout_ms", -1)
    return Member(
        message.group_id,
        message.member_id,
        message.member_epoch,
        poll_ms if poll_ms >= 0 else None,
    )


def _read_member_answer(message: ApiMessage, _version: int) -> MemberAnswer:
    assigned = (
        None
        if message.assignment is None
        else tuple(
            (topic_id_name(topic.topic_id), part)
            for topic in message.assignment.topic_partitions
            for part in topic.partitions
        )
    )
    return MemberAnswer(message.error_code, message.member_epoch, assigned, message.member_id or "")


_REQ, _RES = Direction.REQUEST, Direction.RESPONSE
READERS: Final[
    dict[tuple[str, Direction], tuple[type[ApiMessage], Callable[[ApiMessage, int], Content]]]
] = {
    (Api.SHARE_FETCH, _REQ): (messages.ShareFetchRequest, _read_acknowledging),
    (Api.SHARE_FETCH, _RES): (messages.ShareFetchResponse, _read_share_fetch_answer),
    (Api.SHARE_ACKNOWLEDGE, _REQ): (messages.ShareAcknowledgeRequest, _read_acknowledging),
    (Api.SHARE_ACKNOWLEDGE, _RES): (messages.ShareAcknowledgeResponse, _read_acknowledging_answer),
    (Api.INITIALIZE_SHARE_GROUP_STATE, _REQ): (
        messages.InitializeShareGroupStateRequest,
        _read_state,
    ),
    (Api.INITIALIZE_SHARE_GROUP_STATE, _RES): (
        messages.InitializeShareGroupStateResponse,
        _read_state_answer,
    ),
    (Api.READ_SHARE_GROUP_STATE, _REQ): (messages.ReadShareGroupStateRequest, _read_state),
    (Api.READ_SHARE_GROUP_STATE, _RES): (messages.ReadShareGroupStateResponse, _read_state_answer),
    (Api.WRITE_SHARE_GROUP_STATE, _REQ): (messages.WriteShareGroupStateRequest, _read_state),
    (Api.WRITE_SHARE_GROUP_STATE, _RES): (
        messages.WriteShareGroupStateResponse,
        _read_state_answer,
    ),
    (Api.SHARE_GROUP_HEARTBEAT, _REQ): (messages.ShareGroupHeartbeatRequest, _read_member),
    (Api.SHARE_GROUP_HEARTBEAT, _RES): (messages.ShareGroupHeartbeatResponse, _read_member_answer),
    (Api.SHARE_GROUP_DESCRIBE, _REQ): (messages.ShareGroupDescribeRequest, _read_describing),
    (Api.SHARE_GROUP_DESCRIBE, _RES): (messages.ShareGroupDescribeResponse, _read_described),
    (Api.CONSUMER_GROUP_HEARTBEAT, _REQ): (messages.ConsumerGroupHeartbeatRequest, _read_member),
    (Api.CONSUMER_GROUP_HEARTBEAT, _RES): (
        messages.ConsumerGroupHeartbeatResponse,
        _read_member_answer,
    ),
}
