"""Real frames, encoded by kafka-python's protocol classes."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from kafka.protocol.consumer.fetch import FetchRequest, FetchResponse
from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetCommitResponse,
    SyncGroupRequest,
)
from kafka.protocol.metadata.find_coordinator import FindCoordinatorRequest
from kafka.protocol.metadata.metadata import MetadataRequest, MetadataResponse
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
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecordsBuilder

from harness.model.record import ATTEMPT_HEADER, Record
from harness.protocols.kafka.messages import TxnOffsetCommitRequest, TxnOffsetCommitResponse

TOPIC = "k.in"
TOPIC_ID = uuid.UUID(int=7)
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


@dataclass(frozen=True)
class Writer:
    """Who produces: -1 where there is no producer id."""

    producer_id: int = -1
    epoch: int = -1
    sequence: int = -1
    transactional_id: str | None = None


PLAIN = Writer()


def payload(record: str, filler: str = "") -> bytes:
    """Make a payload of ours."""
    return Record(record, "key", 1, filler).encode("key")


def batch(
    records: list[bytes], writer: Writer = PLAIN, *, codec: str = "none", base_offset: int = 0
) -> bytes:
    """Make a record batch with these values, as it stands in a request, or (with a base offset) in
    a log.
    """
    builder = MemoryRecordsBuilder(
        2,
        CODECS[codec],
        1 << 26,
        transactional=writer.transactional_id is not None,
        producer_id=writer.producer_id,
        producer_epoch=writer.epoch,
        base_sequence=writer.sequence,
    )
    for number, value in enumerate(records):
        attempt = [(ATTEMPT_HEADER, f"i.1.{number}".encode())]
        builder.append(timestamp=1, key=b"key", value=value, headers=attempt)
    builder.close()
    return base_offset.to_bytes(8, "big") + bytes(builder.buffer())[8:]


def abort_marker(producer_id: int, base_offset: int) -> bytes:
    """Make a control batch that ends an aborted transaction."""
    builder = DefaultRecordBatchBuilder(2, 0, True, producer_id, 0, -1, 1 << 16)
    builder.append(0, 1, b"\0\0\0\0", b"\0\0\0\0\0\0", [])
    data = bytearray(builder.build())
    data[0:8] = base_offset.to_bytes(8, "big")
    data[22] |= 0x20
    return bytes(data)


def encoded(
    message: Any,
    corr: int,
    client: str | None = None,
) -> bytes:
    """Make a message as a frame."""
    if message.is_request():
        message.with_header(correlation_id=corr, client_id=client)
    else:
        message.with_header(correlation_id=corr)
    return bytes(message.encode(header=True, framed=True))


def _topic(version: int, by_id_from: int, name: str = "name") -> dict[str, Any]:
    return {"topic_id": TOPIC_ID} if version >= by_id_from else {name: TOPIC}


def produce(
    corr: int,
    client: str,
    records: bytes,
    *,
    version: int = 9,
    acks: int = -1,
    writer: Writer = PLAIN,
    partition: int = 0,
) -> bytes:
    """Make a Produce request for one partition."""
    topics = ProduceRequest.TopicProduceData
    part = topics.PartitionProduceData(version=version, index=partition, records=records)
    data = [topics(version=version, partition_data=[part], **_topic(version, 13))]
    request = ProduceRequest(
        version=version,
        transactional_id=writer.transactional_id,
        acks=acks,
        timeout_ms=1,
        topic_data=data,
    )
    return encoded(request, corr, client)


def produce_answer(
    corr: int, *, version: int = 9, error: int = 0, base_offset: int = 0, partition: int = 0
) -> bytes:
    """Make its response."""
    topics = ProduceResponse.TopicProduceResponse
    part = topics.PartitionProduceResponse(
        version=version,
        index=partition,
        error_code=error,
        base_offset=base_offset,
        record_errors=[],
    )
    data = [topics(version=version, partition_responses=[part], **_topic(version, 13))]
    return encoded(ProduceResponse(version=version, responses=data), corr)


def fetch(
    corr: int,
    client: str,
    offset: int | None,
    *,
    version: int = 12,
    committed: bool = False,
    epoch: int = 0,
    partition: int = 0,
) -> bytes:
    """Make a Fetch request; without an offset it names nothing, as incremental ones do."""
    topics = FetchRequest.FetchTopic
    part = topics.FetchPartition(version=version, partition=partition, fetch_offset=offset or 0)
    named = (
        []
        if offset is None
        else [topics(version=version, partitions=[part], **_topic(version, 13, "topic"))]
    )
    request = FetchRequest(
        version=version,
        isolation_level=int(committed),
        session_id=1,
        session_epoch=epoch,
        topics=named,
    )
    return encoded(request, corr, client)


def fetch_answer(
    corr: int,
    records: bytes,
    *,
    version: int = 12,
    aborted: tuple[tuple[int, int], ...] = (),
    partition: int = 0,
) -> bytes:
    """Make a Fetch response with one partition."""
    topics = FetchResponse.FetchableTopicResponse
    parts = topics.PartitionData
    gone = [
        parts.AbortedTransaction(version=version, producer_id=pid, first_offset=first)
        for pid, first in aborted
    ]
    part = parts(
        version=version, partition_index=partition, records=records, aborted_transactions=gone
    )
    data = [topics(version=version, partitions=[part], **_topic(version, 13, "topic"))]
    return encoded(FetchResponse(version=version, session_id=1, responses=data), corr)


def commit(
    corr: int, client: str, offset: int, *, version: int = 8, partition: int = 0, group: str = "g"
) -> bytes:
    """Make an OffsetCommit request."""
    topics = OffsetCommitRequest.OffsetCommitRequestTopic
    part = topics.OffsetCommitRequestPartition(
        version=version, partition_index=partition, committed_offset=offset, committed_metadata=""
    )
    data = [topics(version=version, partitions=[part], **_topic(version, 10))]
    return encoded(
        OffsetCommitRequest(version=version, group_id=group, member_id="", topics=data),
        corr,
        client,
    )


def commit_answer(corr: int, *, version: int = 8, error: int = 0, partition: int = 0) -> bytes:
    """Make its response."""
    topics = OffsetCommitResponse.OffsetCommitResponseTopic
    part = topics.OffsetCommitResponsePartition(
        version=version, partition_index=partition, error_code=error
    )
    data = [topics(version=version, partitions=[part], **_topic(version, 10))]
    return encoded(OffsetCommitResponse(version=version, topics=data), corr)


def txn_commit(corr: int, client: str, offset: int, writer: Writer, *, version: int = 3) -> bytes:
    """Make a TxnOffsetCommit request."""
    topics = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
    part = topics.TxnOffsetCommitRequestPartition(
        version=version, partition_index=0, committed_offset=offset, committed_metadata=""
    )
    request = TxnOffsetCommitRequest(
        version=version,
        transactional_id=writer.transactional_id,
        group_id="g",
        producer_id=writer.producer_id,
        producer_epoch=writer.epoch,
        topics=[topics(version=version, partitions=[part], **_topic(version, 6))],
    )
    return encoded(request, corr, client)


def txn_commit_answer(corr: int, *, version: int = 3, error: int = 0) -> bytes:
    """Make its response."""
    topics = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
    part = topics.TxnOffsetCommitResponsePartition(
        version=version, partition_index=0, error_code=error
    )
    data = [topics(version=version, partitions=[part], **_topic(version, 6))]
    return encoded(TxnOffsetCommitResponse(version=version, topics=data), corr)


def add_partitions(
    corr: int, client: str, writer: Writer, *partitions: int, version: int = 3
) -> bytes:
    """Make an AddPartitionsToTxn request."""
    topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(
        version=version, name=TOPIC, partitions=list(partitions)
    )
    request = AddPartitionsToTxnRequest(
        version=version,
        v3_and_below_transactional_id=writer.transactional_id,
        v3_and_below_producer_id=writer.producer_id,
        v3_and_below_producer_epoch=writer.epoch,
        v3_and_below_topics=[topic],
    )
    return encoded(request, corr, client)


def add_partitions_answer(corr: int, *, version: int = 3, **errors: int) -> bytes:
    """Make its response; ``p0=51`` is the error of partition 0."""
    topics = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
    part = topics.AddPartitionsToTxnPartitionResult
    parts = [
        part(version=version, partition_index=int(name[1:]), partition_error_code=code)
        for name, code in errors.items()
    ]
    data = [topics(version=version, name=TOPIC, results_by_partition=parts)]
    return encoded(
        AddPartitionsToTxnResponse(version=version, results_by_topic_v3_and_below=data), corr
    )


def add_offsets_answer(corr: int, *, version: int = 3, error: int = 0) -> bytes:
    """Make an AddOffsetsToTxn response."""
    return encoded(AddOffsetsToTxnResponse(version=version, error_code=error), corr)


def add_offsets(corr: int, client: str, writer: Writer, *, version: int = 3) -> bytes:
    """Make an AddOffsetsToTxn request."""
    request = AddOffsetsToTxnRequest(
        version=version,
        transactional_id=writer.transactional_id,
        producer_id=writer.producer_id,
        producer_epoch=writer.epoch,
        group_id="g",
    )
    return encoded(request, corr, client)


def markers(corr: int, client: str, writer: Writer, *partitions: int, version: int = 1) -> bytes:
    """Make a WriteTxnMarkers request with one marker."""
    marker = WriteTxnMarkersRequest.WritableTxnMarker
    topic = marker.WritableTxnMarkerTopic(
        version=version, name=TOPIC, partition_indexes=list(partitions)
    )
    one = marker(
        version=version,
        producer_id=writer.producer_id,
        producer_epoch=writer.epoch,
        transaction_result=True,
        topics=[topic],
        coordinator_epoch=0,
    )
    return encoded(WriteTxnMarkersRequest(version=version, markers=[one]), corr, client)


def init_producer(
    corr: int, client: str, transactional_id: str | None, timeout_ms: int, *, version: int = 4
) -> bytes:
    """Make an InitProducerId request."""
    request = InitProducerIdRequest(
        version=version,
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=-1,
        producer_epoch=-1,
    )
    return encoded(request, corr, client)


def end_txn(
    corr: int, client: str, writer: Writer, *, committed: bool = True, version: int = 3
) -> bytes:
    """Make an EndTxn request."""
    request = EndTxnRequest(
        version=version,
        transactional_id=writer.transactional_id,
        producer_id=writer.producer_id,
        producer_epoch=writer.epoch,
        committed=committed,
    )
    return encoded(request, corr, client)


def end_txn_answer(corr: int, *, version: int = 3, error: int = 0) -> bytes:
    """Make its response."""
    return encoded(EndTxnResponse(version=version, error_code=error), corr)


def metadata(corr: int, client: str, *, version: int = 12) -> bytes:
    """Make a Metadata request."""
    return encoded(MetadataRequest(version=version, topics=[]), corr, client)


def metadata_answer(corr: int, *, version: int = 12) -> bytes:
    """Make a Metadata response that gives the topic's id."""
    topics = MetadataResponse.MetadataResponseTopic
    data = [topics(version=version, name=TOPIC, topic_id=TOPIC_ID, partitions=[])]
    return encoded(MetadataResponse(version=version, brokers=[], topics=data), corr)


def join(corr: int, client: str, *, version: int = 9) -> bytes:
    """Make a JoinGroup request."""
    request = JoinGroupRequest(
        version=version,
        group_id="g",
        session_timeout_ms=6000,
        rebalance_timeout_ms=1,
        member_id="m",
        protocol_type="consumer",
        protocols=[
            JoinGroupRequest.JoinGroupRequestProtocol(version=version, name="range", metadata=b"")
        ],
    )
    return encoded(request, corr, client)


def sync(corr: int, client: str, *, version: int = 5) -> bytes:
    """Make a SyncGroup request."""
    request = SyncGroupRequest(
        version=version,
        group_id="g",
        generation_id=1,
        member_id="m",
        protocol_type="consumer",
        protocol_name="range",
        assignments=[],
    )
    return encoded(request, corr, client)


def heartbeat(corr: int, client: str, *, version: int = 4) -> bytes:
    """Make a Heartbeat request."""
    return encoded(
        HeartbeatRequest(version=version, group_id="g", generation_id=1, member_id="m"),
        corr,
        client,
    )


def find_coordinator(corr: int, client: str, *, kind: int = 0, version: int = 4) -> bytes:
    """Make a FindCoordinator request for a group; for a transactional id, if ``kind`` is 1."""
    keys = {"key": "g"} if version < 4 else {"coordinator_keys": ["g", "h"]}
    return encoded(FindCoordinatorRequest(version=version, key_type=kind, **keys), corr, client)
