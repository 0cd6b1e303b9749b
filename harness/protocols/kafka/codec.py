"""Decode frames. This is the only module that uses kafka-python's protocol schemas and record
formats.

Payloads are whole frames without their length. A topic that a frame gives only by its id is named
by :func:`topic_id_name`; the caller resolves that. A frame that cannot be read raises
:class:`UndecodableError` with the reason.
"""

from __future__ import annotations

import base64
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from kafka.protocol.consumer.fetch import FetchRequest, FetchResponse
from kafka.protocol.consumer.group import OffsetCommitRequest, OffsetCommitResponse
from kafka.protocol.metadata.metadata import MetadataResponse
from kafka.protocol.producer.produce import ProduceRequest, ProduceResponse
from kafka.protocol.producer.transaction import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    WriteTxnMarkersRequest,
)
from kafka.protocol.sasl import SaslAuthenticateResponse, SaslHandshakeResponse

from harness.protocols.kafka.batches import Batch, read_batches
from harness.protocols.kafka.inflating import Room
from harness.protocols.kafka.messages import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Direction

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka.protocol.api_message import ApiMessage
    from kafka.protocol.data_container import DataContainer

_ID_PREFIX: Final = "id:"
BY_ID: Final = {Api.PRODUCE: 13, Api.FETCH: 13, Api.OFFSET_COMMIT: 10, Api.TXN_OFFSET_COMMIT: 6}
"""The version from which a request and its answer name topics by their ids (KIP-516, KIP-848,
KIP-1319)."""


class UndecodableError(ValueError):
    """A frame cannot be read. The message is one line with the reason."""


@dataclass(frozen=True, slots=True)
class Produce:
    """A Produce request: batches per topic and partition."""

    transactional_id: str | None
    acks: int
    partitions: tuple[tuple[str, int, tuple[Batch, ...]], ...]


@dataclass(frozen=True, slots=True)
class ProduceAnswer:
    """A Produce response: (topic, partition, error, base offset)."""

    partitions: tuple[tuple[str, int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Fetch:
    """A Fetch request: positions by topic and partition. ``full``: whether it names all fetched
    partitions.
    """

    read_committed: bool
    full: bool
    positions: dict[tuple[str, int], int]
    forgotten: tuple[tuple[str, int], ...]
    follower: int = -1
    """The id of the broker that fetches to replicate; -1 for a consumer."""


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """One partition of a Fetch response; ``aborted`` are (producer id, first offset)."""

    topic: str
    partition: int
    error: int
    aborted: tuple[tuple[int, int], ...]
    batches: tuple[Batch, ...]


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    """A Fetch response."""

    error: int
    partitions: tuple[FetchedPartition, ...]


@dataclass(frozen=True, slots=True)
class Commit:
    """An OffsetCommit request (outside of transactions) or a TxnOffsetCommit request: (topic,
    partition, offset).
    """

    group: str
    transactional_id: str | None
    producer_id: int
    producer_epoch: int
    offsets: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class CommitAnswer:
    """The response to a Commit: (topic, partition, error)."""

    errors: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class EndTxn:
    """An EndTxn request."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool


@dataclass(frozen=True, slots=True)
class EndTxnAnswer:
    """An EndTxn response."""

    error: int


@dataclass(frozen=True, slots=True)
class Transactional:
    """A request from which only the transactional ids are used."""

    transactional_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Init(Transactional):
    """An InitProducerId request: a producer starts. ``timeout_ms``: how long one of its
    transactions may stay open.
    """

    timeout_ms: int = -1


@dataclass(frozen=True, slots=True)
class Joining(Transactional):
    """A client's AddPartitionsToTxn or AddOffsetsToTxn request: what it adds to its transaction, as
    text.
    """

    api: Api = Api.ADD_PARTITIONS_TO_TXN
    producer_id: int = -1
    producer_epoch: int = -1
    what: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JoiningAnswer:
    """The response to a Joining: the first error, and the parts of the request that it is about;
    empty: all of it.
    """

    error: int = 0
    refused: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Markers:
    """A WriteTxnMarkers request, of a coordinator: (producer id, epoch, topic/partition)."""

    markers: tuple[tuple[int, int, str], ...]


@dataclass(frozen=True, slots=True)
class Names:
    """Topic names by :func:`topic_id_name`, learnt from a Metadata response."""

    names: dict[str, str]


@dataclass(frozen=True, slots=True)
class LogInAnswer:
    """The response to a step of a log-in. ``error`` is 0 if the broker goes on with it."""

    error: int


Content: TypeAlias = (
    Produce
    | ProduceAnswer
    | Fetch
    | FetchAnswer
    | Commit
    | CommitAnswer
    | EndTxn
    | EndTxnAnswer
    | Transactional
    | JoiningAnswer
    | Markers
    | Names
    | LogInAnswer
)


def topic_id_name(topic_id: uuid.UUID | str) -> str:
    """Return the stand-in name of a topic known by id only. Takes a UUID, its text, or Kafka's
    base64 spelling.

    >>> topic_id_name("AAAAAAAAAAAAAAAAAAAAAQ")
    'id:00000000-0000-0000-0000-000000000001'

    Raises:
        UndecodableError: it is not a topic id.
    """
    if isinstance(topic_id, uuid.UUID):
        return f"{_ID_PREFIX}{topic_id}"
    try:
        return f"{_ID_PREFIX}{uuid.UUID(topic_id)}"
    except ValueError:
        pass
    try:
        return f"{_ID_PREFIX}{uuid.UUID(bytes=base64.urlsafe_b64decode(topic_id + '=='))}"
    except ValueError as error:
        raise UndecodableError(f"{topic_id!r} is no topic id") from error


def topic_id(name: str) -> uuid.UUID:
    """Return the id behind a stand-in name.

    Raises:
        ValueError: ``name`` is not a stand-in name.
    """
    return uuid.UUID(name.removeprefix(_ID_PREFIX))


def is_unresolved(topic: str) -> bool:
    """Return whether a topic's name is only a stand-in, because the real name is unknown."""
    return topic.startswith(_ID_PREFIX)


def _topic(entry: DataContainer, *, by_id: bool, attribute: str = "name") -> str:
    return topic_id_name(entry.topic_id) if by_id else str(getattr(entry, attribute))


def _read_produce(message: ApiMessage, version: int) -> Produce:
    by_id = version >= BY_ID[Api.PRODUCE]
    room = Room()
    return Produce(
        message.transactional_id,
        message.acks,
        tuple(
            (_topic(topic, by_id=by_id), part.index, read_batches(part.records, room))
            for topic in message.topic_data
            for part in topic.partition_data
        ),
    )


def _read_produce_answer(message: ApiMessage, version: int) -> ProduceAnswer:
    by_id = version >= BY_ID[Api.PRODUCE]
    return ProduceAnswer(
        tuple(
            (_topic(topic, by_id=by_id), part.index, part.error_code, part.base_offset)
            for topic in message.responses
            for part in topic.partition_responses
        )
    )


def _read_fetch(message: ApiMessage, version: int) -> Fetch:
    by_id = version >= BY_ID[Api.FETCH]
    forgotten = message.forgotten_topics_data if version >= 7 else ()  # noqa: PLR2004 - KIP-227
    state = message.replica_state if version >= 15 else None  # noqa: PLR2004 - KIP-903
    return Fetch(
        message.isolation_level == 1,
        version < 7 or message.session_epoch in (0, -1),  # noqa: PLR2004 - KIP-227
        {
            (_topic(topic, by_id=by_id, attribute="topic"), part.partition): part.fetch_offset
            for topic in message.topics
            for part in topic.partitions
        },
        tuple(
            (_topic(topic, by_id=by_id, attribute="topic"), part)
            for topic in forgotten
            for part in topic.partitions
        ),
        message.replica_id if version < 15 else state.replica_id if state else -1,  # noqa: PLR2004 - KIP-903
    )


def _read_fetch_answer(message: ApiMessage, version: int) -> FetchAnswer:
    by_id = version >= BY_ID[Api.FETCH]
    room = Room()
    return FetchAnswer(
        message.error_code if version >= 7 else 0,  # noqa: PLR2004 - KIP-227
        tuple(
            FetchedPartition(
                _topic(topic, by_id=by_id, attribute="topic"),
                part.partition_index,
                part.error_code,
                tuple(
                    (gone.producer_id, gone.first_offset)
                    for gone in part.aborted_transactions or ()
                ),
                read_batches(part.records, room),
            )
            for topic in message.responses
            for part in topic.partitions
        ),
    )


def _read_commit(message: ApiMessage, version: int) -> Commit:
    by_id = version >= BY_ID[Api.OFFSET_COMMIT]
    return Commit(message.group_id, None, -1, -1, _offsets(message, by_id=by_id))


def _read_txn_commit(message: ApiMessage, version: int) -> Commit:
    offsets = _offsets(message, by_id=version >= BY_ID[Api.TXN_OFFSET_COMMIT])
    return Commit(
        message.group_id,
        message.transactional_id,
        message.producer_id,
        message.producer_epoch,
        offsets,
    )


def _offsets(message: ApiMessage, *, by_id: bool) -> tuple[tuple[str, int, int], ...]:
    return tuple(
        (_topic(topic, by_id=by_id), part.partition_index, part.committed_offset)
        for topic in message.topics
        for part in topic.partitions
    )


def _read_commit_answer(message: ApiMessage, version: int) -> CommitAnswer:
    is_plain = Api.OFFSET_COMMIT.number == message.API_KEY
    by_id = version >= BY_ID[Api.OFFSET_COMMIT if is_plain else Api.TXN_OFFSET_COMMIT]
    return CommitAnswer(
        tuple(
            (_topic(topic, by_id=by_id), part.partition_index, part.error_code)
            for topic in message.topics
            for part in topic.partitions
        )
    )


def _read_end_txn(message: ApiMessage, _version: int) -> EndTxn:
    return EndTxn(
        message.transactional_id, message.producer_id, message.producer_epoch, message.committed
    )


def _read_end_txn_answer(message: ApiMessage, _version: int) -> EndTxnAnswer:
    return EndTxnAnswer(message.error_code)


def _read_init(message: ApiMessage, _version: int) -> Init:
    return Init(
        (message.transactional_id,) if message.transactional_id else (),
        message.transaction_timeout_ms,
    )


def _read_add_partitions(message: ApiMessage, version: int) -> Transactional:
    if version < 4:  # noqa: PLR2004 - KIP-890: a batch of transactions, from broker to broker
        what = tuple(
            f"{topic.name}/{part}"
            for topic in message.v3_and_below_topics
            for part in topic.partitions
        )
        return Joining(
            (message.v3_and_below_transactional_id,),
            Api.ADD_PARTITIONS_TO_TXN,
            message.v3_and_below_producer_id,
            message.v3_and_below_producer_epoch,
            what,
        )
    return Transactional(tuple(each.transactional_id for each in message.transactions))


def _read_add_offsets(message: ApiMessage, _version: int) -> Joining:
    return Joining(
        (message.transactional_id,),
        Api.ADD_OFFSETS_TO_TXN,
        message.producer_id,
        message.producer_epoch,
        (f"group {message.group_id}",),
    )


def _read_add_partitions_answer(message: ApiMessage, version: int) -> JoiningAnswer:
    if version >= 4:  # noqa: PLR2004 - KIP-890: from broker to broker
        return JoiningAnswer()
    told = {
        f"{topic.name}/{part.partition_index}": part.partition_error_code
        for topic in message.results_by_topic_v3_and_below
        for part in topic.results_by_partition
    }
    refused = {what: error for what, error in told.items() if error}
    return JoiningAnswer(next(iter(refused.values()), 0), tuple(refused))


def _read_add_offsets_answer(message: ApiMessage, _version: int) -> JoiningAnswer:
    return JoiningAnswer(error=message.error_code)


def _read_markers(message: ApiMessage, _version: int) -> Markers:
    return Markers(
        tuple(
            (marker.producer_id, marker.producer_epoch, f"{topic.name}/{part}")
            for marker in message.markers
            for topic in marker.topics
            for part in topic.partition_indexes
        )
    )


def _read_names(message: ApiMessage, version: int) -> Names:
    if version < 10:  # noqa: PLR2004 - KIP-516
        return Names({})
    return Names(
        {topic_id_name(topic.topic_id): topic.name for topic in message.topics if topic.name}
    )


def _read_log_in_answer(message: ApiMessage, _version: int) -> LogInAnswer:
    return LogInAnswer(message.error_code)


READERS: Final[
    dict[tuple[str, Direction], tuple[type[ApiMessage], Callable[[ApiMessage, int], Content]]]
] = {
    (Api.PRODUCE, Direction.REQUEST): (ProduceRequest, _read_produce),
    (Api.PRODUCE, Direction.RESPONSE): (ProduceResponse, _read_produce_answer),
    (Api.FETCH, Direction.REQUEST): (FetchRequest, _read_fetch),
    (Api.FETCH, Direction.RESPONSE): (FetchResponse, _read_fetch_answer),
    (Api.METADATA, Direction.RESPONSE): (MetadataResponse, _read_names),
    (Api.OFFSET_COMMIT, Direction.REQUEST): (OffsetCommitRequest, _read_commit),
    (Api.OFFSET_COMMIT, Direction.RESPONSE): (OffsetCommitResponse, _read_commit_answer),
    (Api.INIT_PRODUCER_ID, Direction.REQUEST): (InitProducerIdRequest, _read_init),
    (Api.ADD_PARTITIONS_TO_TXN, Direction.REQUEST): (
        AddPartitionsToTxnRequest,
        _read_add_partitions,
    ),
    (Api.ADD_PARTITIONS_TO_TXN, Direction.RESPONSE): (
        AddPartitionsToTxnResponse,
        _read_add_partitions_answer,
    ),
    (Api.ADD_OFFSETS_TO_TXN, Direction.REQUEST): (AddOffsetsToTxnRequest, _read_add_offsets),
    (Api.ADD_OFFSETS_TO_TXN, Direction.RESPONSE): (
        AddOffsetsToTxnResponse,
        _read_add_offsets_answer,
    ),
    (Api.END_TXN, Direction.REQUEST): (EndTxnRequest, _read_end_txn),
    (Api.END_TXN, Direction.RESPONSE): (EndTxnResponse, _read_end_txn_answer),
    (Api.WRITE_TXN_MARKERS, Direction.REQUEST): (WriteTxnMarkersRequest, _read_markers),
    (Api.TXN_OFFSET_COMMIT, Direction.REQUEST): (TxnOffsetCommitRequest, _read_txn_commit),
    (Api.TXN_OFFSET_COMMIT, Direction.RESPONSE): (TxnOffsetCommitResponse, _read_commit_answer),
    (Api.SASL_HANDSHAKE, Direction.RESPONSE): (SaslHandshakeResponse, _read_log_in_answer),
    (Api.SASL_AUTHENTICATE, Direction.RESPONSE): (SaslAuthenticateResponse, _read_log_in_answer),
}
