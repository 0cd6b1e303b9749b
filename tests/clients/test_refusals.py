"""Refusals in the broker's name are what the broker itself says: asked the same in the same
version, by the same parser.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.protocol.consumer.fetch import FetchResponse
from kafka.protocol.consumer.group import (
    HeartbeatResponse,
    JoinGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    SyncGroupResponse,
)
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse
from kafka.protocol.producer.produce import ProduceResponse
from kafka.protocol.producer.transaction import (
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnResponse,
    EndTxnResponse,
)

from harness.protocols.kafka.session import AT, Kafka, KafkaFrame
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Direction
from tests.wire import kafka_frames as kf
from tests.wire.broker import read_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from harness.systems.kafka.transport import KafkaTransport

pytestmark = [pytest.mark.kafka, pytest.mark.rest, pytest.mark.timeout(300)]

CLIENT = "oracle"
CORR = 5
UNKNOWN = kf.Writer(77, 0, 0, "nobody")
MINE = frozenset(
    {
        "throttle_time_ms",
        "error_message",
        "log_append_time_ms",
        "log_start_offset",
        "last_stable_offset",
    }
)
"""What a broker may add to a refusal, and nobody acts on."""
Asks = tuple[Api, "Callable[[int], bytes]", Any, str]


def commit(version: int) -> bytes:
    """Ask to save a position, as a member that its group does not have."""
    topics = OffsetCommitRequest.OffsetCommitRequestTopic
    part = topics.OffsetCommitRequestPartition(
        version=version, partition_index=0, committed_offset=1, committed_metadata=""
    )
    named = {"topic_id": kf.TOPIC_ID} if version >= 10 else {"name": kf.TOPIC}
    request = OffsetCommitRequest(
        version=version,
        group_id="g",
        generation_id_or_member_epoch=3,
        member_id="m",
        topics=[topics(version=version, partitions=[part], **named)],
    )
    return kf.encoded(request, CORR, CLIENT)


ASKS: list[Asks] = [
    (
        Api.PRODUCE,
        lambda v: kf.produce(CORR, CLIENT, kf.batch([b"x" * 99]), version=v),
        ProduceResponse,
        "MESSAGE_TOO_LARGE",
    ),
    (
        Api.FETCH,
        lambda v: kf.fetch(CORR, CLIENT, 99, version=v, epoch=-1),
        FetchResponse,
        "OFFSET_OUT_OF_RANGE",
    ),
    (
        Api.FETCH,
        lambda v: kf.fetch(CORR, CLIENT, 0, version=v, epoch=3),
        FetchResponse,
        "FETCH_SESSION_ID_NOT_FOUND",
    ),
    (Api.OFFSET_COMMIT, commit, OffsetCommitResponse, "UNKNOWN_MEMBER_ID"),
    (
        Api.JOIN_GROUP,
        lambda v: kf.join(CORR, CLIENT, version=v),
        JoinGroupResponse,
        "UNKNOWN_MEMBER_ID",
    ),
    (
        Api.SYNC_GROUP,
        lambda v: kf.sync(CORR, CLIENT, version=v),
        SyncGroupResponse,
        "UNKNOWN_MEMBER_ID",
    ),
    (
        Api.HEARTBEAT,
        lambda v: kf.heartbeat(CORR, CLIENT, version=v),
        HeartbeatResponse,
        "UNKNOWN_MEMBER_ID",
    ),
    (
        Api.ADD_PARTITIONS_TO_TXN,
        lambda v: kf.add_partitions(CORR, CLIENT, UNKNOWN, 0, version=v),
        AddPartitionsToTxnResponse,
        "INVALID_PRODUCER_ID_MAPPING",
    ),
    (
        Api.ADD_OFFSETS_TO_TXN,
        lambda v: kf.add_offsets(CORR, CLIENT, UNKNOWN, version=v),
        AddOffsetsToTxnResponse,
        "INVALID_PRODUCER_ID_MAPPING",
    ),
    (
        Api.END_TXN,
        lambda v: kf.end_txn(CORR, CLIENT, UNKNOWN, version=v),
        EndTxnResponse,
        "INVALID_PRODUCER_ID_MAPPING",
    ),
]
"""What a broker refuses at once, and by what."""


def spoken(sock: socket.socket) -> dict[int, range]:
    """Return which versions of each API a broker speaks."""
    sock.sendall(kf.encoded(ApiVersionsRequest(version=0), CORR, CLIENT))
    answer: Any = ApiVersionsResponse.decode(read_frame(sock)[AT:], version=0, header=True)
    return {each.api_key: range(each.min_version, each.max_version + 1) for each in answer.api_keys}


def refused(data: bytes, error: str) -> bytes:
    """Return what the wire says in the broker's name."""
    session = Kafka().session(1, limit=1 << 20)
    frame = session.feed(Direction.REQUEST, data)
    assert isinstance(frame, KafkaFrame)
    return session.refuse(frame, data, error)


def told(kind: Any, version: int, data: bytes) -> Any:
    """Return an answer as plain values, without what only a broker has to say."""
    return _without(kind.decode(data[AT:], version=version, header=True).to_dict())


def _without(plain: Any) -> Any:
    if isinstance(plain, dict):
        return {
            name: _without(value)
            for name, value in plain.items()
            if name not in MINE and value not in (None, b"", [], -1)
        }
    return [_without(each) for each in plain] if isinstance(plain, list) else plain


@pytest.fixture
def broker(kafka: KafkaTransport, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A connection to one with a topic that takes no record."""
    kafka.observer.create_topics({kf.TOPIC: (1, {"max.message.bytes": "10"})})
    kafka.observer.save_positions("g", kf.TOPIC, {0: 0})  # before, it coordinates nothing
    producer = KafkaProducer(bootstrap_servers=kafka.broker.bootstrap, transactional_id="somebody")
    producer.init_transactions()
    producer.close()
    admin = KafkaAdminClient(bootstrap_servers=kafka.broker.bootstrap)
    [topic] = admin.describe_topics([kf.TOPIC])
    monkeypatch.setattr(kf, "TOPIC_ID", topic["topic_id"])
    admin.close()
    host, _, port = kafka.broker.bootstrap.partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as sock:
        yield sock


def test_the_wire_refuses_as_the_broker_does(broker: socket.socket) -> None:
    """Each step that can be brought to it, in each version that broker, parser and wire know."""
    versions = spoken(broker)
    compared = 0
    for api, ask, kind, error in ASKS:
        first, last = kind.valid_versions
        for version in versions[api.number]:
            batched = api is Api.ADD_PARTITIONS_TO_TXN and version >= 4  # from broker to broker
            sessionless = error == "FETCH_SESSION_ID_NOT_FOUND" and version < 7
            if not first <= version <= last or batched or sessionless:
                continue
            data = ask(version)
            broker.sendall(data)
            own, ours = (
                told(kind, version, each) for each in (read_frame(broker), refused(data, error))
            )
            assert own == ours, f"{api.label} {version}: {error}"
            compared += 1
    assert compared > 50
