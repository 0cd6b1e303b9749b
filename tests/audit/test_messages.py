"""Requests and answers byte by byte: equal to those that kafka-python writes, and read as it would
read them.
"""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.admin.configs import DescribeConfigsRequest, DescribeConfigsResponse
from kafka.protocol.consumer.fetch import FetchRequest
from kafka.protocol.consumer.offsets import ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)

from harness.audit import messages
from harness.audit.links import CORRELATION
from harness.audit.messages import CLIENT, AnswerReader, Request

NUMBER = 7


def framed(request: Any) -> bytes:
    """Return a request as kafka-python sends it."""
    request.with_header(correlation_id=NUMBER, client_id=CLIENT)
    return bytes(request.encode(header=True, framed=True))


def words(answer: Any) -> AnswerReader:
    """Return the words of an answer that kafka-python has written; what stands behind it is none of
    it.
    """
    answer.with_header(correlation_id=NUMBER)
    data = bytes(answer.encode(header=True))
    return AnswerReader(data + b"behind", CORRELATION, len(data))


def fetch(topic: str, partition: int, at: int) -> Any:
    """Return kafka-python's request for records."""
    some = {"partition": partition, "fetch_offset": at, "partition_max_bytes": 99}
    of_topic = FetchRequest.FetchTopic(
        version=11,
        topic=topic,
        partitions=[
            FetchRequest.FetchTopic.FetchPartition(
                version=11,
                current_leader_epoch=-1,
                log_start_offset=-1,
                **some,
            )
        ],
    )
    return FetchRequest(
        version=11,
        replica_id=-1,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=99,
        isolation_level=1,
        session_id=0,
        session_epoch=-1,
        topics=[of_topic],
        forgotten_topics_data=[],
        rack_id="",
    )


def offsets(topic: str, partitions: list[int]) -> Any:
    """Return kafka-python's request for offsets."""
    kind = ListOffsetsRequest.ListOffsetsTopic
    wanted = [
        kind.ListOffsetsPartition(version=3, partition_index=one, timestamp=-2)
        for one in partitions
    ]
    return ListOffsetsRequest(
        version=3,
        replica_id=-1,
        isolation_level=1,
        topics=[kind(version=3, name=topic, partitions=wanted)],
    )


def config(topic: str) -> Any:
    """Return kafka-python's request for a setting."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        version=1, resource_type=2, resource_name=topic, configuration_keys=["cleanup.policy"]
    )
    return DescribeConfigsRequest(version=1, resources=[resource], include_synonyms=False)


def metadata(topic: str) -> Any:
    """Return kafka-python's request for leaders."""
    name = MetadataRequest.MetadataRequestTopic(version=5, name=topic)
    return MetadataRequest(version=5, topics=[name], allow_auto_topic_creation=False)


@pytest.mark.parametrize("topic", ["orders", "ä.b-c_d" * 30])
def test_requests_are_kafka_pythons(topic: str) -> None:
    pairs: list[tuple[Request, Any]] = [
        (messages.versions_request(), ApiVersionsRequest(version=0)),
        (messages.metadata_request(topic), metadata(topic)),
        (messages.offsets_request(topic, [0, 5], time=-2, isolation=1), offsets(topic, [0, 5])),
        (messages.config_request(topic, "cleanup.policy"), config(topic)),
        (
            messages.fetch_request(topic, 3, 1 << 40, wait_ms=500, most_bytes=99),
            fetch(topic, 3, 1 << 40),
        ),
    ]
    for mine, theirs in pairs:
        assert mine.framed(NUMBER) == framed(theirs)
        assert (mine.api.key, mine.api.name) == (theirs.API_KEY, theirs.name)


def test_versions_are_read() -> None:
    api = ApiVersionsResponse.ApiVersion
    known = [
        api(version=0, api_key=1, min_version=4, max_version=18),
        api(version=0, api_key=32, min_version=1, max_version=4),
    ]
    assert messages.versions(
        words(ApiVersionsResponse(version=0, error_code=0, api_keys=known))
    ) == {1: (4, 18), 32: (1, 4)}


@pytest.mark.parametrize("rack", [None, "r"])
def test_leaders_are_read(rack: str | None) -> None:
    """Brokers, the topic's error, and who leads each partition; a partition may have nobody."""
    of_topic = MetadataResponse.MetadataResponseTopic
    parts = [
        of_topic.MetadataResponsePartition(
            version=5,
            error_code=5 if leader < 0 else 0,
            partition_index=number,
            leader_id=leader,
            replica_nodes=[1, 2, 3],
            isr_nodes=[2],
            offline_replicas=[1, 3],
        )
        for number, leader in ((4, 2), (1, -1))
    ]
    topic = of_topic(version=5, error_code=3, name="orders", is_internal=True, partitions=parts)
    broker = MetadataResponse.MetadataResponseBroker
    brokers = [
        broker(version=5, node_id=number, host="a.b", port=9090 + number, rack=rack)
        for number in (1, 2)
    ]
    found = messages.metadata(
        words(
            MetadataResponse(
                version=5,
                throttle_time_ms=9,
                brokers=brokers,
                cluster_id=rack,
                controller_id=2,
                topics=[topic],
            )
        )
    )
    assert found == ({1: ("a.b", 9091), 2: ("a.b", 9092)}, 3, ((4, 2), (1, -1)))


def test_offsets_are_read() -> None:
    kind = ListOffsetsResponse.ListOffsetsTopicResponse
    parts = [
        kind.ListOffsetsPartitionResponse(
            version=3, partition_index=one, error_code=error, timestamp=-1, offset=offset
        )
        for one, error, offset in ((0, 0, 1 << 40), (7, 6, -1))
    ]
    answer = ListOffsetsResponse(
        version=3, throttle_time_ms=0, topics=[kind(version=3, name="orders", partitions=parts)]
    )
    assert messages.offsets(words(answer)) == [(0, 0, 1 << 40), (7, 6, -1)]


@pytest.mark.parametrize("value", ["compact,delete", None])
def test_settings_are_read(value: str | None) -> None:
    """A value that is not told is empty; one that may not be read is not there."""
    result = DescribeConfigsResponse.DescribeConfigsResult
    other = result.DescribeConfigsResourceResult.DescribeConfigsSynonym(
        version=1, name="log.cleanup.policy", value="x", source=5
    )
    entry = result.DescribeConfigsResourceResult(
        version=1,
        name="cleanup.policy",
        value=value,
        read_only=False,
        config_source=5,
        is_sensitive=False,
        synonyms=[other],
    )
    for entries, told in (([entry, entry], [value or ""] * 2), ([], [])):
        one = result(
            version=1,
            error_code=0 if entries else 29,
            error_message=None,
            resource_type=2,
            resource_name="orders",
            configs=entries,
        )
        assert (
            messages.config_values(
                words(DescribeConfigsResponse(version=1, throttle_time_ms=0, results=[one]))
            )
            == told
        )


@pytest.mark.parametrize("size", range(4, 60, 3))
def test_an_answer_that_ends_early_is_no_answer(size: int) -> None:
    """A broker whose words cannot be read is left, as one that hangs up is."""
    broker = MetadataResponse.MetadataResponseBroker(
        version=5, node_id=1, host="a.b.c.d.e.f", port=9090, rack="a rack of it"
    )
    answer = MetadataResponse(
        version=5,
        throttle_time_ms=9,
        brokers=[broker],
        cluster_id="cluster",
        controller_id=2,
        topics=[],
    )
    answer.with_header(correlation_id=NUMBER)
    data = bytes(answer.encode(header=True))
    assert size < len(data)
    with pytest.raises(ConnectionError, match="the broker gave an answer that"):
        messages.metadata(AnswerReader(data, CORRELATION, size))
