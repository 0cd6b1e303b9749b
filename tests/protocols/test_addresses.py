"""Addresses of brokers in answers: each version of each API that names some, encoded by
kafka-python, rewritten, and decoded again.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.admin.cluster import DescribeClusterResponse
from kafka.protocol.consumer.fetch import FetchResponse
from kafka.protocol.metadata.find_coordinator import FindCoordinatorResponse
from kafka.protocol.metadata.metadata import MetadataResponse
from kafka.protocol.producer.produce import ProduceResponse

from harness.protocols.kafka.addresses import (
    DESCRIBE_CLUSTER,
    brokers_in,
    may_name,
    with_addresses,
)
from harness.protocols.kafka.messages import ShareAcknowledgeResponse, ShareFetchResponse
from harness.protocols.kafka.steps import Api
from harness.wire.protocol import UnableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

THERE = {1: ("kafka-1.example", 9092), 2: ("k2", 9093)}
HERE = {1: ("127.0.0.1", 40001), 2: ("127.0.0.1", 40002)}
TOPIC_ID = uuid.UUID(int=7)
LEADER_MOVED = 6


def nodes(make: Any, version: int, *, named: str = "node_id", **more: Any) -> list[Any]:
    """Return the two brokers, in a schema's own form."""
    return [
        make(version=version, host=host, port=port, rack="r", **{named: node}, **more)
        for node, (host, port) in THERE.items()
    ]


def metadata(version: int) -> Any:
    """Two brokers, and a topic."""
    kind = MetadataResponse
    topic = kind.MetadataResponseTopic
    part = topic.MetadataResponsePartition(
        version=version, partition_index=0, leader_id=1, replica_nodes=[1, 2], isr_nodes=[1]
    )
    made = topic(version=version, name="orders", topic_id=TOPIC_ID, partitions=[part])
    brokers = nodes(kind.MetadataResponseBroker, version)
    return kind(version=version, brokers=brokers, cluster_id="c", controller_id=1, topics=[made])


def coordinator(version: int) -> Any:
    """Two coordinators, or one before version 4."""
    kind, (host, port) = FindCoordinatorResponse, THERE[1]
    if version < 4:
        return kind(version=version, error_code=0, node_id=1, host=host, port=port)
    two = [
        kind.Coordinator(version=version, key="g", node_id=node, host=host, port=port)
        for node, (host, port) in THERE.items()
    ]
    missing = kind.Coordinator(
        version=version, key="h", node_id=-1, host="", port=-1, error_code=15, error_message="no"
    )
    return kind(version=version, coordinators=[*two, missing])


def cluster(version: int) -> Any:
    """Two brokers."""
    kind = DescribeClusterResponse
    brokers = nodes(kind.DescribeClusterBroker, version, named="broker_id")
    return kind(version=version, cluster_id="c", controller_id=1, brokers=brokers)


def produced(version: int) -> Any:
    """A leader that has moved, and an error of a record."""
    kind = ProduceResponse
    part = kind.TopicProduceResponse.PartitionProduceResponse
    parts = [
        part(
            version=version,
            index=0,
            error_code=LEADER_MOVED,
            base_offset=-1,
            record_errors=[
                part.BatchIndexAndErrorMessage(
                    version=version, batch_index=0, batch_index_error_message="why"
                )
            ],
            error_message="moved",
            current_leader=part.LeaderIdAndEpoch(version=version, leader_id=2, leader_epoch=3),
        )
    ]
    topic = kind.TopicProduceResponse(
        version=version, name="orders", topic_id=TOPIC_ID, partition_responses=parts
    )
    return kind(
        version=version, responses=[topic], node_endpoints=nodes(kind.NodeEndpoint, version)
    )


def fetched(version: int) -> Any:
    """A leader that has moved, and records of another partition."""
    kind = FetchResponse
    part = kind.FetchableTopicResponse.PartitionData
    parts = [
        part(
            version=version,
            partition_index=number,
            error_code=error,
            high_watermark=9,
            records=records,
            aborted_transactions=[
                part.AbortedTransaction(version=version, producer_id=1, first_offset=2)
            ],
            current_leader=part.LeaderIdAndEpoch(version=version, leader_id=2, leader_epoch=3),
        )
        for number, error, records in ((0, LEADER_MOVED, None), (1, 0, b"records" * 99))
    ]
    topic = kind.FetchableTopicResponse(version=version, topic_id=TOPIC_ID, partitions=parts)
    return kind(
        version=version, responses=[topic], node_endpoints=nodes(kind.NodeEndpoint, version)
    )


def shared(version: int, kind: Any = ShareFetchResponse) -> Any:
    """A leader that has moved."""
    [topics] = [getattr(kind, name) for name in dir(kind) if name.endswith("TopicResponse")]
    part = topics.PartitionData
    leader = part.LeaderIdAndEpoch(version=version, leader_id=2, leader_epoch=3)
    more: dict[str, Any] = {}
    if kind is ShareFetchResponse:
        acquired = part.AcquiredRecords(
            version=version, first_offset=1, last_offset=2, delivery_count=1
        )
        more = {"records": b"records", "acquired_records": [acquired]}
    parts = [
        part(version=version, error_code=LEADER_MOVED, current_leader=leader, **more)
        for _ in range(2)
    ]
    topic = topics(version=version, topic_id=TOPIC_ID, partitions=parts)
    endpoints = nodes(kind.NodeEndpoint, version)
    return kind(version=version, responses=[topic], node_endpoints=endpoints)


def acknowledged(version: int) -> Any:
    """A leader that has moved."""
    return shared(version, ShareAcknowledgeResponse)


MADE: dict[str, tuple[Any, Callable[[int], Any], range]] = {
    Api.METADATA: (MetadataResponse, metadata, range(14)),
    Api.FIND_COORDINATOR: (FindCoordinatorResponse, coordinator, range(7)),
    DESCRIBE_CLUSTER: (DescribeClusterResponse, cluster, range(3)),
    Api.PRODUCE: (ProduceResponse, produced, range(10, 14)),
    Api.FETCH: (FetchResponse, fetched, range(16, 19)),
    Api.SHARE_FETCH: (ShareFetchResponse, shared, range(1, 3)),
    Api.SHARE_ACKNOWLEDGE: (ShareAcknowledgeResponse, acknowledged, range(1, 3)),
}


def each() -> Iterator[Any]:
    """Every version that names brokers."""
    for step, (_, _, versions) in MADE.items():
        for version in versions:
            yield pytest.param(step, version, id=f"{step}-{version}")


def frame(step: str, version: int) -> bytes:
    """Return an answer, its length included."""
    made = MADE[step][1](version)
    made.with_header(correlation_id=5)
    return bytes(made.encode(header=True, framed=True))


def plain(step: str, version: int, data: bytes) -> Any:
    """Return what an answer says, as plain values."""
    kind = MADE[step][0]
    return kind.decode(data, version=version, header=True, framed=True).to_dict()


def moved(value: Any) -> Any:
    """Return values with each broker's address replaced, by its id."""
    if isinstance(value, list):
        return [moved(each) for each in value]
    if not isinstance(value, dict):
        return value
    named = value.get("node_id", value.get("broker_id"))
    if "host" in value and named in HERE:
        host, port = HERE[named]
        value = {**value, "host": host, "port": port}
    return {name: moved(each) for name, each in value.items()}


@pytest.mark.parametrize(("step", "version"), list(each()))
def test_only_host_and_port_differ(step: str, version: int) -> None:
    """All else is as it came, and every broker is found."""
    data = frame(step, version)
    assert may_name(step, version)
    one = step == Api.FIND_COORDINATOR and version < 4
    assert brokers_in(step, version, data) == ({1: THERE[1]} if one else THERE)
    new = with_addresses(step, version, data, HERE)
    before, after = plain(step, version, data), plain(step, version, new)
    assert after == moved(before)
    assert after != before
    assert int.from_bytes(new[:4], "big") == len(new) - 4
    assert with_addresses(step, version, new, THERE) == data


@pytest.mark.parametrize(("step", "version"), list(each()))
def test_an_answer_that_is_cut_off_is_told(step: str, version: int) -> None:
    """At every byte: it is refused by one line, or its brokers stand whole before the cut."""
    data = frame(step, version)
    said = [cut_off(step, version, data[:end]) for end in range(8, len(data))]
    assert any(said)
    assert not any("\n" in text for text in said)


def cut_off(step: str, version: int, data: bytes) -> str:
    """Return what is said of an answer that is cut off; nothing, if its brokers stand before."""
    try:
        found = brokers_in(step, version, data)
    except UnableError as error:
        return str(error)
    assert found.items() <= THERE.items()
    return ""


@pytest.mark.parametrize("step", MADE)
def test_a_version_that_is_not_known_may_name_brokers(step: str) -> None:
    """It is not read: a newer version is laid out as nobody here can know."""
    last = MADE[step][2][-1]
    assert may_name(step, last + 1)
    with pytest.raises(UnableError, match=f"only versions . to {last} are known"):
        brokers_in(step, last + 1, frame(step, last))


def test_versions_that_name_nobody_are_not_looked_at() -> None:
    """A Fetch and a Produce name leaders only since KIP-951; other answers never do."""
    assert not may_name(Api.FETCH, 15)
    assert not may_name(Api.PRODUCE, 9)
    assert not may_name(Api.HEARTBEAT, 99)


def test_controllers_are_not_taken_for_brokers() -> None:
    """Their ids may be the same, and the wire stands before none of them."""
    made = cluster(2)
    made.endpoint_type = 2
    made.with_header(correlation_id=5)
    data = bytes(made.encode(header=True, framed=True))
    with pytest.raises(UnableError, match="names controllers"):
        brokers_in(DESCRIBE_CLUSTER, 2, data)


@pytest.mark.parametrize("port", [0, -1, 1 << 16])
def test_a_broker_without_a_port_is_none(port: int) -> None:
    """The answer is laid out otherwise."""
    data = frame(Api.METADATA, 12)
    at = data.index(THERE[2][1].to_bytes(4, "big"))
    wrong = data[:at] + port.to_bytes(4, "big", signed=True) + data[at + 4 :]
    with pytest.raises(UnableError, match="is not laid out as such an answer is"):
        brokers_in(Api.METADATA, 12, wrong)


ANSWERS = [(step, version) for step, (*_, versions) in MADE.items() for version in versions]
EVERYWHERE = {node: ("127.0.0.1", 40000 + node) for node in range(300)}


@settings(max_examples=300, deadline=None)
@given(
    answer=st.sampled_from(ANSWERS),
    changed=st.dictionaries(st.integers(8, 400), st.integers(0, 255), max_size=4),
    end=st.none() | st.integers(8, 400),
)
def test_whatever_is_in_an_answer_it_is_refused_or_only_its_addresses_change(
    answer: tuple[str, int], changed: dict[int, int], end: int | None
) -> None:
    """And may be changed back."""
    step, version = answer
    payload = bytearray(frame(step, version)[:end])[4:]
    for at, byte in changed.items():
        payload[at - 4 : at - 3] = bytes([byte]) if at - 4 < len(payload) else b""
    data = len(payload).to_bytes(4, "big") + payload
    try:
        before = brokers_in(step, version, data)
    except UnableError as error:
        said = str(error)
    else:
        said = ""
    if said:
        assert "\n" not in said
        return
    new = with_addresses(step, version, data, EVERYWHERE)
    after = brokers_in(step, version, new)
    assert after == {node: EVERYWHERE.get(node, place) for node, place in before.items()}
    if not changed:  # else one broker may be named by two addresses
        assert with_addresses(step, version, new, before) == data
