"""A broker of one topic made by hand: it leads every partition, and gives the batches that it was
given.
"""

from __future__ import annotations

import contextlib
import socketserver
import struct
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafka.protocol.admin.configs import DescribeConfigsRequest, DescribeConfigsResponse
from kafka.protocol.consumer.fetch import FetchRequest, FetchResponse
from kafka.protocol.consumer.offsets import ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

SPOKEN = {
    FetchRequest: FetchResponse,
    ListOffsetsRequest: ListOffsetsResponse,
    MetadataRequest: MetadataResponse,
    DescribeConfigsRequest: DescribeConfigsResponse,
    ApiVersionsRequest: ApiVersionsResponse,
}
UNKNOWN_TOPIC = 3


@dataclass
class Stored:
    """A partition: batches with the offset behind each, aborted transactions, what a committed
    reader may read up to.

    Of each aborted transaction: its first offset, its producer, the offset of its marker.
    """

    batches: list[tuple[int, bytes]] = field(default_factory=list)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    start: int = 0
    stable: int | None = None

    @property
    def end(self) -> int:
        """The offset behind the last batch."""
        return self.batches[-1][0] if self.batches else self.start


@dataclass
class Topic:
    """What the broker has. ``batches_a_fetch`` are given at once; ``answers`` counts fetches."""

    name: str
    partitions: list[Stored]
    policy: str = "delete"
    batches_a_fetch: int = 3
    fetch_version: int = 11
    answers: int = 0


@contextlib.contextmanager
def broker(topic: Topic) -> Iterator[str]:
    """Serve a topic; give host:port."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while size := self.rfile.read(4):
                data = self.rfile.read(int.from_bytes(size, "big"))
                key, version, number, length = struct.unpack_from(">hhih", data)
                kind = next(kind for kind in SPOKEN if key == kind.API_KEY)
                asked = kind.decode(data[10 + length :], version=version)
                answer = SPOKEN[kind](
                    version=version,
                    **_answer(topic, kind, version, asked, self.server.server_address),
                )
                answer.with_header(correlation_id=number)
                with contextlib.suppress(ConnectionError):
                    self.wfile.write(bytes(answer.encode(header=True, framed=True)))

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join(10)


def _answer(topic: Topic, kind: Any, version: int, asked: Any, address: Any) -> dict[str, Any]:
    if kind is ApiVersionsRequest:
        api = ApiVersionsResponse.ApiVersion
        most = {FetchRequest: topic.fetch_version}
        return {
            "error_code": 0,
            "api_keys": [
                api(
                    version=version,
                    api_key=one.API_KEY,
                    min_version=0,
                    max_version=most.get(one, 11),
                )
                for one in SPOKEN
            ],
        }
    if kind is MetadataRequest:
        return _metadata(topic, version, asked.topics[0].name, address)
    if kind is ListOffsetsRequest:
        of_topic = ListOffsetsResponse.ListOffsetsTopicResponse
        parts = [
            of_topic.ListOffsetsPartitionResponse(
                version=version,
                partition_index=one.partition_index,
                error_code=0,
                timestamp=-1,
                offset=_offset(
                    topic.partitions[one.partition_index], one.timestamp, asked.isolation_level
                ),
            )
            for one in asked.topics[0].partitions
        ]
        return {
            "throttle_time_ms": 0,
            "topics": [of_topic(version=version, name=topic.name, partitions=parts)],
        }
    if kind is DescribeConfigsRequest:
        result = DescribeConfigsResponse.DescribeConfigsResult
        entry = result.DescribeConfigsResourceResult(
            version=version,
            name="cleanup.policy",
            value=topic.policy,
            read_only=False,
            config_source=5,
            is_sensitive=False,
            synonyms=[],
        )
        one = result(
            version=version,
            error_code=0,
            error_message=None,
            resource_type=2,
            resource_name=topic.name,
            configs=[entry],
        )
        return {"throttle_time_ms": 0, "results": [one]}
    return _fetched(topic, version, asked)


def _offset(stored: Stored, time: int, isolation: int) -> int:
    if time == -2:
        return stored.start
    return stored.stable if isolation and stored.stable is not None else stored.end


def _metadata(topic: Topic, version: int, name: str, address: Any) -> dict[str, Any]:
    host, port = address
    of_topic = MetadataResponse.MetadataResponseTopic
    parts = [
        of_topic.MetadataResponsePartition(
            version=version,
            error_code=0,
            partition_index=number,
            leader_id=1,
            replica_nodes=[1],
            isr_nodes=[1],
            offline_replicas=[],
        )
        for number in range(len(topic.partitions))
    ]
    there = name == topic.name
    told = of_topic(
        version=version,
        error_code=0 if there else UNKNOWN_TOPIC,
        name=name,
        is_internal=False,
        partitions=parts if there else [],
    )
    me = MetadataResponse.MetadataResponseBroker(
        version=version, node_id=1, host=host, port=port, rack=None
    )
    return {
        "throttle_time_ms": 0,
        "brokers": [me],
        "cluster_id": "c",
        "controller_id": 1,
        "topics": [told],
    }


def _fetched(topic: Topic, version: int, asked: Any) -> dict[str, Any]:
    topic.answers += 1
    part = asked.topics[0].partitions[0]
    stored = topic.partitions[part.partition]
    some = [(end, data) for end, data in stored.batches if end > part.fetch_offset][
        : topic.batches_a_fetch
    ]
    of_topic = FetchResponse.FetchableTopicResponse
    gone = of_topic.PartitionData.AbortedTransaction
    answer = of_topic.PartitionData(
        version=version,
        partition_index=part.partition,
        error_code=0,
        high_watermark=stored.end,
        last_stable_offset=stored.end,
        log_start_offset=stored.start,
        preferred_read_replica=-1,
        aborted_transactions=[
            gone(version=version, producer_id=who, first_offset=first)
            for first, who, marked in stored.aborted
            if some and first < some[-1][0] and marked >= part.fetch_offset
        ],
        records=b"".join(data for _, data in some),
    )
    return {
        "throttle_time_ms": 0,
        "error_code": 0,
        "session_id": 0,
        "responses": [of_topic(version=version, topic=topic.name, partitions=[answer])],
    }
