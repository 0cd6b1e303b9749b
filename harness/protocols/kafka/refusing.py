"""Make legal refusals: the answer with an error that a broker would give to a request, in the
request's version.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from kafka.protocol.consumer.fetch import FetchRequest, FetchResponse
from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafka.protocol.metadata.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka.protocol.producer.produce import ProduceRequest, ProduceResponse
from kafka.protocol.producer.transaction import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)

from harness.protocols.kafka.codec import BY_ID, topic_id
from harness.protocols.kafka.messages import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from harness.protocols.kafka.steps import ERRORS, Api
from harness.wire.protocol import UnableError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from kafka.protocol.api_message import ApiMessage
    from kafka.protocol.data_container import DataContainer

BATCHES: Final = 4
"""From which version on AddPartitionsToTxn is about several transactions, from broker to broker."""
SESSIONS: Final = 7
"""From which version on a Fetch may name what has changed only, and its answer has an error of its
own.
"""
OF_SESSIONS: Final = frozenset({"FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH"})
"""Errors of a Fetch as a whole; all others are each partition's."""
SEVERAL: Final = 4
"""From which version on a FindCoordinator may ask for several."""

TRANSACTIONAL: Final = frozenset({Api.PRODUCE, Api.INIT_PRODUCER_ID})
"""Requests that may have a transactional id, and then need the right to that id."""
ONE_OR_OTHER: Final = ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED")
"""The errors about rights of such a request: with a transactional id, and without."""
OF_KEYS: Final = ("GROUP_AUTHORIZATION_FAILED", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
"""The errors about rights of a FindCoordinator, by the type of its key."""


def refusal(  # noqa: PLR0917 - what stands in a frame, in its order
    api: str,
    version: int,
    corr: int,
    request: bytes,
    error: str,
    fetched: Collection[tuple[str, int]] = (),
) -> bytes:
    """Return the answer to a request (whole, without its length), as a frame.

    ``fetched``: for a Fetch, all partitions of its fetch session, by their names in it. The refusal
    ends the session, so that the broker expects the client's next request, too.

    Raises:
        UnableError: the request is never refused by this error.
    """
    known = _KNOWN.get(api)
    if known is None:
        raise UnableError(f"nobody knows how a {api} is refused")
    asks, answers, make = known
    first, last = answers.valid_versions
    if not first <= version <= last:
        raise UnableError(f"version {version} of {api} is outside {first} to {last}")
    try:
        asked = asks.decode(request, version=version, header=True)
        _check_right(api, asked, error)
        if api == Api.FETCH and error not in OF_SESSIONS:
            answer = _fetch(fetched, version, ERRORS[error])
        else:
            answer = make(asked, version, ERRORS[error])
        answer.with_header(correlation_id=corr)
        return bytes(answer.encode(header=True, framed=True))
    except UnableError:
        raise
    except Exception as wrong:  # the library raises whatever the bytes lead it to
        raise UnableError(
            f"a {api} of version {version} cannot be refused: {type(wrong).__name__}: {wrong}"
        ) from wrong


def _check_right(api: str, asked: ApiMessage, error: str) -> None:
    """Raise UnableError if a broker gives this error about a right, but not to such a request,
    which does not need the right.
    """
    if api in TRANSACTIONAL and error in ONE_OR_OTHER:
        needs = ONE_OR_OTHER[0] if asked.transactional_id else ONE_OR_OTHER[1]
        if error != needs:
            having = "with a" if asked.transactional_id else "without a"
            raise UnableError(f"a {api} {having} transactional id is never refused by {error}")
    elif (
        api == Api.FIND_COORDINATOR
        and error in OF_KEYS
        and getattr(asked, "key_type", 0) != OF_KEYS.index(error)
    ):
        raise UnableError(f"a {api} for a key of type {asked.key_type} is never refused by {error}")


def _named(
    topic: DataContainer, api: Api, version: int, *, name: str = "name"
) -> dict[str, object]:
    """Return a topic's name, or its id, as its answer has it."""
    return (
        {"topic_id": topic.topic_id}
        if version >= BY_ID.get(api, 1 << 15)
        else {name: getattr(topic, name)}
    )


def _produce(asked: ApiMessage, version: int, error: int) -> ApiMessage:
    topics = ProduceResponse.TopicProduceResponse
    parts = topics.PartitionProduceResponse
    return ProduceResponse(
        version=version,
        responses=[
            topics(
                version=version,
                **_named(topic, Api.PRODUCE, version),
                partition_responses=[
                    parts(
                        version=version,
                        index=part.index,
                        error_code=error,
                        base_offset=-1,
                        record_errors=[],
                    )
                    for part in topic.partition_data
                ],
            )
            for topic in asked.topic_data
        ],
    )


def _fetch(fetched: Collection[tuple[str, int]], version: int, error: int) -> ApiMessage:
    topics = FetchResponse.FetchableTopicResponse
    parts = topics.PartitionData
    named: defaultdict[str, list[int]] = defaultdict(list)
    for topic, part in fetched:
        named[topic].append(part)
    return FetchResponse(
        version=version,
        session_id=0,
        responses=[
            topics(
                version=version,
                **_fetched(topic, version),
                partitions=[
                    parts(
                        version=version,
                        partition_index=part,
                        error_code=error,
                        high_watermark=-1,
                        aborted_transactions=[],
                        records=b"",
                    )
                    for part in partitions
                ],
            )
            for topic, partitions in named.items()
        ],
    )


def _fetched(topic: str, version: int) -> dict[str, object]:
    return {"topic_id": topic_id(topic)} if version >= BY_ID[Api.FETCH] else {"topic": topic}


def _session(asked: ApiMessage, version: int, error: int) -> ApiMessage:
    """Return the refusal of a whole fetch session. A request without a session is refused for each
    partition.
    """
    if version >= SESSIONS:
        return FetchResponse(version=version, error_code=error, session_id=0, responses=[])
    return _fetch(
        [(topic.topic, part.partition) for topic in asked.topics for part in topic.partitions],
        version,
        error,
    )


def _find(asked: ApiMessage, version: int, error: int) -> ApiMessage:
    if version < SEVERAL:
        return FindCoordinatorResponse(
            version=version, error_code=error, error_message=None, node_id=-1, host="", port=-1
        )
    each = FindCoordinatorResponse.Coordinator
    return FindCoordinatorResponse(
        version=version,
        coordinators=[
            each(
                version=version,
                key=key,
                node_id=-1,
                host="",
                port=-1,
                error_code=error,
                error_message=None,
            )
            for key in asked.coordinator_keys
        ],
    )


def _offsets(answers: type[ApiMessage], api: Api) -> Callable[[ApiMessage, int, int], ApiMessage]:
    def make(asked: ApiMessage, version: int, error: int) -> ApiMessage:
        topics = getattr(answers, f"{answers.__name__}Topic")
        parts = getattr(topics, f"{answers.__name__}Partition")
        return answers(
            version=version,
            topics=[
                topics(
                    version=version,
                    **_named(topic, api, version),
                    partitions=[
                        parts(
                            version=version, partition_index=part.partition_index, error_code=error
                        )
                        for part in topic.partitions
                    ],
                )
                for topic in asked.topics
            ],
        )

    return make


def _add_partitions(asked: ApiMessage, version: int, error: int) -> ApiMessage:
    if version >= BATCHES:
        return AddPartitionsToTxnResponse(
            version=version, error_code=error, results_by_transaction=[]
        )
    topics = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
    parts = topics.AddPartitionsToTxnPartitionResult
    return AddPartitionsToTxnResponse(
        version=version,
        results_by_topic_v3_and_below=[
            topics(
                version=version,
                name=topic.name,
                results_by_partition=[
                    parts(version=version, partition_index=part, partition_error_code=error)
                    for part in topic.partitions
                ],
            )
            for topic in asked.v3_and_below_topics
        ],
    )


NO_PROTOCOL_SINCE: Final = 7
"""From this version of JoinGroup on a broker that refuses names no protocol; before,
an empty one.
"""


def _join(asked: ApiMessage, version: int, error: int) -> ApiMessage:
    return JoinGroupResponse(
        version=version,
        error_code=error,
        generation_id=-1,
        protocol_name=None if version >= NO_PROTOCOL_SINCE else "",
        protocol_type=None,
        leader="",
        skip_assignment=False,
        member_id=asked.member_id,
        members=[],
    )


def _sync(_asked: ApiMessage, version: int, error: int) -> ApiMessage:
    return SyncGroupResponse(
        version=version, error_code=error, protocol_type=None, protocol_name=None, assignment=b""
    )


def _init(_asked: ApiMessage, version: int, error: int) -> ApiMessage:
    return InitProducerIdResponse(
        version=version, error_code=error, producer_id=-1, producer_epoch=-1
    )


def _alone(answers: type[ApiMessage]) -> Callable[[ApiMessage, int, int], ApiMessage]:
    """An answer that has nothing but its error."""
    return lambda _asked, version, error: answers(version=version, error_code=error)


_KNOWN: Final[
    dict[
        str, tuple[type[ApiMessage], type[ApiMessage], Callable[[ApiMessage, int, int], ApiMessage]]
    ]
] = {
    Api.PRODUCE: (ProduceRequest, ProduceResponse, _produce),
    Api.FETCH: (FetchRequest, FetchResponse, _session),
    Api.FIND_COORDINATOR: (FindCoordinatorRequest, FindCoordinatorResponse, _find),
    Api.OFFSET_COMMIT: (
        OffsetCommitRequest,
        OffsetCommitResponse,
        _offsets(OffsetCommitResponse, Api.OFFSET_COMMIT),
    ),
    Api.TXN_OFFSET_COMMIT: (
        TxnOffsetCommitRequest,
        TxnOffsetCommitResponse,
        _offsets(TxnOffsetCommitResponse, Api.TXN_OFFSET_COMMIT),
    ),
    Api.ADD_PARTITIONS_TO_TXN: (
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnResponse,
        _add_partitions,
    ),
    Api.ADD_OFFSETS_TO_TXN: (
        AddOffsetsToTxnRequest,
        AddOffsetsToTxnResponse,
        _alone(AddOffsetsToTxnResponse),
    ),
    Api.END_TXN: (EndTxnRequest, EndTxnResponse, _alone(EndTxnResponse)),
    Api.INIT_PRODUCER_ID: (InitProducerIdRequest, InitProducerIdResponse, _init),
    Api.JOIN_GROUP: (JoinGroupRequest, JoinGroupResponse, _join),
    Api.SYNC_GROUP: (SyncGroupRequest, SyncGroupResponse, _sync),
    Api.HEARTBEAT: (HeartbeatRequest, HeartbeatResponse, _alone(HeartbeatResponse)),
}
